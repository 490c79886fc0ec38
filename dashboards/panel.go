package dashboards

// Kind is how a panel draws its rows.
type Kind int

// Kinds of panels.
const (
	// TimeSeries draws a line for each combination of labels and value.
	TimeSeries Kind = iota
	// Bars is a time series of stacked bars: for amounts that add up.
	Bars
	// Stat shows the only row's values as large figures.
	Stat
	// Table shows rows.
	Table
	// BarChart draws one bar per row: the first column names it.
	BarChart
)

// Units of values, as Grafana calls them. None of them rounds what it is given.
const (
	USD     = "currencyUSD"
	Tokens  = "short"
	Count   = "short"
	Percent = "percentunit" // 1 is 100 %
	Seconds = "s"
	Bytes   = "bytes"
	Text    = "string"
	Time    = "dateTimeAsIso"
)

// Panel is one query and how it is drawn.
type Panel struct {
	Title string
	// Description says how the figure is computed. Required.
	Description string
	Kind        Kind
	// Unit is that of every value that Units does not name.
	Unit  string
	Query Query
	// Empty is shown where there is no row or the value is null: unknown is not
	// zero. Required.
	Empty string
	// Width of 24 and Height in rows of Grafana's grid; zero: a default of the kind.
	Width, Height uint32
	// Units of columns by their name in the query.
	Units map[string]string
	// Tasks is the column, if any, whose cells lead to the dashboard of that task.
	Tasks string
	// Max of the axis; zero: none.
	Max float64
	// Series is the column that names the series; empty: the values' own names do.
	Series string
	// Interval is the shortest between two points; empty: five minutes, a bucket.
	Interval string
}

// Row is a heading with the panels under it.
type Row struct {
	Title  string
	Panels []Panel
}

// Variable is a choice above the panels.
type Variable struct {
	Name, Label, Description string
	// Query gives the choices: a column with the value, and one with the text if
	// that differs.
	Query Query
	// Multi allows several values, and All.
	Multi bool
	// Custom is a fixed list instead of a query.
	Custom []string
	// Text is a free text with this default instead of both.
	Text string
}

// Dashboard is panels of one question.
type Dashboard struct {
	UID, Title, Description string
	// From is how far the range reaches back at first, such as now-24h.
	From      string
	Variables []Variable
	Rows      []Row
}

// Panels are those of all rows, in order.
func (d *Dashboard) Panels() []Panel {
	var out []Panel
	for _, r := range d.Rows {
		out = append(out, r.Panels...)
	}
	return out
}

// UIDs of the dashboards, as links and alerts name them.
const (
	UIDSpend    = "tatara-ledger-spend"
	UIDCache    = "tatara-ledger-cache"
	UIDTask     = "tatara-ledger-task"
	UIDTiering  = "tatara-ledger-tiering"
	UIDHandoffs = "tatara-ledger-handoffs"
	UIDHealth   = "tatara-ledger-health"
)

// All are the dashboards, in the order of their links.
func All(o Options) []Dashboard {
	return []Dashboard{
		spendDashboard(), cacheDashboard(), taskDashboard(), tieringDashboard(o.Prices), handoffsDashboard(), healthDashboard(),
	}
}

func (p *Panel) size() (w, h uint32) {
	w, h = 12, 8
	switch p.Kind {
	case Stat:
		w, h = 6, 4
	case Table:
		w = 24
	case TimeSeries, Bars, BarChart:
	}
	if p.Width > 0 {
		w = p.Width
	}
	if p.Height > 0 {
		h = p.Height
	}
	return w, h
}
