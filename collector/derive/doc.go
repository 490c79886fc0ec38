// Package derive turns facts into charges. It is pure: the same set of facts
// gives the same charges, in whatever order and however often the facts are
// given, so that any replica may derive at any time and doing it twice is
// harmless. It reads no clock, no store and no configuration but its own.
package derive
