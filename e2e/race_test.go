//go:build race

package e2e

// raceDetector says that the binary is to be built with the race detector,
// because the tests are.
const raceDetector = true
