package listener

// Reserve is how many of the process's files are kept for the store, models and tools.
const Reserve = 512

// Auto is how many connections a process may take, so that files are left for the rest:
// all but Reserve of the open files that the system allows it, or half of them where there are
// fewer than twice that; 0 = the system has no such limit.
func Auto() int { return left(descriptors()) }

func left(files int) int {
	return max(files-Reserve, files/2)
}
