// Package store holds the types and errors of what agents leave for each
// other: handoffs and rooms. How they are kept is the work of the packages
// below it. It imports nothing of this module.
package store
