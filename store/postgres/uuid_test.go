package postgres

import (
	"testing"

	"github.com/google/uuid"
)

func TestUUIDs(t *testing.T) {
	s := newStore(t)
	id := uuid.New()
	for _, want := range []uuid.NullUUID{{}, {UUID: id, Valid: true}} {
		got := uuid.NullUUID{UUID: uuid.New(), Valid: !want.Valid}
		if err := s.pool.QueryRow(t.Context(), `SELECT $1::uuid`, want).Scan(&got); err != nil || got != want {
			t.Errorf("%v came back as %v, %v", want, got, err)
		}
	}
	var got uuid.UUID
	var asText string
	if err := s.pool.QueryRow(t.Context(), `SELECT $1::uuid, $1::uuid::text`, id).Scan(&got, &asText); err != nil || got != id || asText != id.String() {
		t.Errorf("%v came back as %v and %v, %v", id, got, asText, err)
	}
	if err := s.pool.QueryRow(t.Context(), `SELECT null::uuid`).Scan(&got); err == nil {
		t.Error("null was read as a uuid that cannot be null")
	}
	var list []uuid.UUID
	if err := s.pool.QueryRow(t.Context(), `SELECT $1::uuid[]`, []uuid.UUID{id, uuid.Nil}).Scan(&list); err != nil || len(list) != 2 || list[0] != id {
		t.Errorf("a list came back as %v, %v", list, err)
	}
}
