package bridge

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The roles of the engine's only user. Every connection starts with both; a
// connection of the restricted account gives the first one up.
const (
	ownerRole     = "owner"
	publishedRole = "published"
)

// The engine authenticates every connection as its user "default". That user
// has no grants of its own, only two roles, so that SET ROLE leaves a
// connection with the published views and nothing else, enforced by the engine
// at every place where a table is read.
type (
	usersFile struct {
		XMLName  xml.Name `xml:"clickhouse"`
		Profile  string   `xml:"profiles>default"`
		Owner    []string `xml:"roles>owner>grants>query"`
		Readers  []string `xml:"roles>published>grants>query"`
		Password string   `xml:"users>default>password"`
		Network  string   `xml:"users>default>networks>ip"`
		UsesProf string   `xml:"users>default>profile"`
		UsesQuot string   `xml:"users>default>quota"`
		Grants   []string `xml:"users>default>grants>query"`
		Quota    string   `xml:"quotas>default"`
	}
	serverFile struct {
		XMLName   xml.Name `xml:"clickhouse"`
		Users     string   `xml:"users_config"`
		MaxMemory string   `xml:"max_server_memory_usage,omitempty"`
	}
)

// writeAccess writes the engine's configuration beside its data and returns
// its path. It holds no secret: passwords are checked by the bridge.
func writeAccess(c Config) (string, error) {
	folder := filepath.Join(c.DataPath, "bridge")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("creating the data folder: %w", err)
	}
	users := usersFile{
		Owner:   []string{"GRANT ALL ON *.* WITH GRANT OPTION"},
		Network: "::/0", UsesProf: "default", UsesQuot: "default",
		Grants: []string{"GRANT " + ownerRole, "GRANT " + publishedRole},
	}
	if len(c.Published) == 0 {
		// A role needs a grant in the file; this one gives nothing that the
		// implicit rights do not.
		users.Readers = []string{"GRANT SELECT ON `system`.`one`"}
	}
	for _, v := range c.Published {
		users.Readers = append(users.Readers, "GRANT SELECT ON "+quoteName(v.Database)+"."+quoteName(v.Name))
	}
	usersPath, err := filepath.Abs(filepath.Join(folder, "users.xml"))
	if err != nil {
		return "", fmt.Errorf("resolving the data folder: %w", err)
	}
	server := serverFile{Users: usersPath}
	if c.MaxMemoryBytes > 0 {
		server.MaxMemory = strconv.FormatUint(c.MaxMemoryBytes, 10)
	}
	if err := writeXML(usersPath, users); err != nil {
		return "", err
	}
	configPath := filepath.Join(filepath.Dir(usersPath), "config.xml")
	return configPath, writeXML(configPath, server)
}

func writeXML(path string, v any) error {
	b, err := xml.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", filepath.Base(path), err)
	}
	if err := os.WriteFile(path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return nil
}

// quoteName quotes an identifier for SQL.
func quoteName(s string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(s) + "`"
}

// quoteString quotes a string literal for SQL.
func quoteString(s string) string {
	return "'" + strings.NewReplacer("\\", "\\\\", "'", "\\'").Replace(s) + "'"
}
