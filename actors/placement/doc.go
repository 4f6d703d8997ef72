// Package placement says on which node of a cluster a session lives.
package placement
