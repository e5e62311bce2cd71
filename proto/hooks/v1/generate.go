// Package hooksv1 is the generated code of hooks.proto, and nothing by hand.
//
// Its one invariant: running go generate in this directory changes no byte.
package hooksv1

//go:generate sh ../../generate.sh
