// Package chdb binds the C library libchdb, which is the whole ClickHouse
// engine in one file, without cgo: the library is loaded at run time from a
// path (Locate finds it), so the binary does not depend on it.
//
// An Engine belongs to a process and a data folder; connections to it run
// statements in parallel. Results can be streamed (Conn.Query) and so can the
// data of an INSERT (Conn.Insert): memory does not grow with either, and data
// may contain any byte.
//
// Calls block and cannot be interrupted from Go; a long one is ended with
// KILL QUERY from another connection, or by max_execution_time.
package chdb
