// Package storetest is what every store is tested with and what others test
// with: the conformance suite of the durability contract, and a store that fails
// on demand.
//
// Its one invariant: TestStore asks only what package store promises, so that a
// backend which passes can take the place of any other.
package storetest
