package usage

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
)

func TestParseDollars(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]Nano{
		"0":                      0,
		"-0":                     0,
		"0.054399":               54_399_000,
		"+1.5":                   1_500_000_000,
		".5":                     500_000_000,
		"5.":                     5_000_000_000,
		"1.234567e+05":           123_456_700_000_000,
		"5E-7":                   500,
		"0.1":                    100_000_000, // no float lies between
		"0.3":                    300_000_000,
		"0.0000000005":           0, // half to even
		"0.0000000015":           2,
		"0.0000000025":           2,
		"0.00000000250000000001": 3,
		"0.0000000024999":        2,
		"1e-99":                  0,
		"1000000":                MaxAmount,
		"0001000000.0":           MaxAmount,
		"1e6":                    MaxAmount,
		"999999.999999999":       MaxAmount - 1,
	} {
		if got, err := ParseDollars(s); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", " ", "1 ", "-1", "-1e-9", "1,5", "1/3", "0x10", "0b1", "1_000", "NaN", "Inf", "+Inf", "e", "e5", "1e", "1e+", ".", "-", "--1",
		"1.2.3", "1e5e5", "1e1.5", "1e100", "1e-100", "1e999999999", "1000000.000000001", "1000001", "9999999", "1e7", "1e9", "$1", "１", strings.Repeat("1", 65),
	} {
		if got, err := ParseDollars(s); !errors.Is(err, ErrAmount) || got != 0 {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
}

func TestRoundNano(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		num, den int64
		want     Nano
	}{
		{0, 1, 0},
		{1, 2, 0},
		{3, 2, 2},
		{5, 2, 2},
		{7, 2, 4},
		{1, 3, 0},
		{2, 3, 1},
		{-1, 2, 0},
		{-3, 2, -2},
		{-5, 2, -2},
		{-1, 3, 0},
		{-2, 3, -1},
		{-7, 1, -7},
		{math.MaxInt64, 1, math.MaxInt64},
		{math.MinInt64, 1, math.MinInt64},
		{math.MaxInt64, 2, 1 << 62}, // …3.5 to the even …4
	} {
		if got := RoundNano(big.NewRat(c.num, c.den)); got != c.want {
			t.Errorf("%d/%d: %d, want %d", c.num, c.den, got, c.want)
		}
	}
}

func TestRoundNanoLeavesItsArgument(t *testing.T) {
	t.Parallel()
	r := big.NewRat(-7, 3)
	RoundNano(r)
	if r.Cmp(big.NewRat(-7, 3)) != 0 {
		t.Errorf("argument became %s", r)
	}
}

func TestNanoString(t *testing.T) {
	t.Parallel()
	for n, want := range map[Nano]string{
		0:              "0",
		1:              "0.000000001",
		-1:             "-0.000000001",
		54_399_000:     "0.054399",
		1e9:            "1",
		100e9:          "100",
		-1_500_000_000: "-1.5",
		math.MaxInt64:  "9223372036.854775807",
		math.MinInt64:  "-9223372036.854775808",
	} {
		if got := n.String(); got != want {
			t.Errorf("%d: %s, want %s", int64(n), got, want)
		}
	}
}

func TestNullNano(t *testing.T) {
	t.Parallel()
	var unknown NullNano
	if unknown.Ptr() != nil || NullNanoOf(nil) != unknown {
		t.Error("unknown became known")
	}
	if unknown == Some(0) {
		t.Error("unknown is not zero")
	}
	for _, n := range []Nano{0, -5, 7} {
		if p := Some(n).Ptr(); p == nil || *p != int64(n) || NullNanoOf(p) != Some(n) {
			t.Errorf("%d does not survive", n)
		}
	}
}

// TestParsePlain: the fast path reads exactly what the exact one does.
func TestParsePlain(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"0", "00.10", "1", "0.000000001", "0.123456789", "999999.999999999", "12.5"} {
		want, err := parseExact(s)
		if got, ok := parsePlain(s); err != nil || !ok || got != want {
			t.Errorf("%q: %d, %v, want %d, %v", s, got, ok, want, err)
		}
	}
	for _, s := range []string{"", ".5", "5.", "+1", "1e5", "1000000", "0.0000000001", "1.2.3", "-0"} {
		if got, ok := parsePlain(s); ok {
			t.Errorf("%q: %d", s, got)
		}
	}
}

// TestSumOfMistakes: what nine thousand sources claim at most adds up.
func TestSumOfMistakes(t *testing.T) {
	t.Parallel()
	if sum := 9000 * MaxAmount; sum.String() != "9000000000" {
		t.Error(sum)
	}
}

// FuzzParseDollars: any text is refused, or is an amount within the bounds that
// survives being written and read.
func FuzzParseDollars(f *testing.F) {
	for _, s := range []string{"0", "0.054399", "1.234567e+06", "-1", "1e-99", "1e9", "1/3", "0x1p-2", "1e999999999", "..", "1e+-5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseDollars(s)
		if exact, exactErr := parseExact(s); exact != n || (exactErr == nil) != (err == nil) {
			t.Fatalf("%q: %d, %v, exactly %d, %v", s, n, err, exact, exactErr)
		}
		if err != nil {
			if !errors.Is(err, ErrAmount) || n != 0 {
				t.Fatalf("%q: %d, %v", s, n, err)
			}
			return
		}
		if n < 0 || n > MaxAmount {
			t.Errorf("%q is out of bounds: %d", s, n)
		}
		if again, err := ParseDollars(n.String()); err != nil || again != n {
			t.Errorf("%q: %d is written %s and read %d, %v", s, n, n, again, err)
		}
	})
}
