package api

import (
	"mime"
	"strconv"
	"strings"
)

// prefersCSV reports whether Accept headers rank CSV above JSON. On a tie the
// type that is named wins over a wildcard, then JSON.
func prefersCSV(accept []string) bool {
	csv, json := quality(accept, "text/csv"), quality(accept, "application/json")
	return csv.q > json.q || csv.q > 0 && csv.q == json.q && csv.specific > json.specific
}

// rank is how much a client wants a type, and how specifically it said so.
type rank struct {
	q        float64
	specific int
}

// quality is what the most specific media range that holds typ gives it; the
// zero rank if none does.
func quality(accept []string, typ string) rank {
	main, _, _ := strings.Cut(typ, "/")
	specific := map[string]int{"*/*": 1, main + "/*": 2, typ: 3}
	var best rank
	for _, part := range strings.Split(strings.Join(accept, ","), ",") {
		name, params, err := mime.ParseMediaType(part)
		if err != nil || specific[name] <= best.specific {
			continue
		}
		q := 1.0
		if v, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(v, 64); err != nil || !(q >= 0 && q <= 1) {
				continue
			}
		}
		best = rank{q, specific[name]}
	}
	return best
}
