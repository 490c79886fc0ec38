package wire

// Posted is the answer to posted facts. Accepted counts those that were seen
// before too.
type Posted struct {
	Accepted int        `json:"accepted"`
	Rejected []Rejected `json:"rejected"`
}

// Rejected says what is wrong with one fact of a request. Index counts from 0.
// At most 1000 are named.
type Rejected struct {
	Index int    `json:"index"`
	Field string `json:"field,omitempty"`
	Error string `json:"error"`
}
