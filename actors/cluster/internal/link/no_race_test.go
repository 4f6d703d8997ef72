//go:build !race

package link

const underRace = false
