package option

// Nearest is the candidate within two or three letters of s, "" if none is.
func Nearest(s string, candidates []string) string {
	best, least := "", 1+min(3, len(s)/4)
	for _, c := range candidates {
		if d := Distance(s, c); d < least {
			best, least = c, d
		}
	}
	return best
}

// Distance is how many bytes make one text of the other: Levenshtein's.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
