package ddns

import (
	"maps"
	"slices"
)

// Properties are the words of the stanza, sorted.
func Properties() []string { return slices.Sorted(maps.Keys(properties)) }
