// Answers for the cases of crates/helm/tests/golden/chart: one JSON object per line in, what Helm makes of it
// out. Charts, values and schemas are read and judged by Helm's own packages.
package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	charts "helm.sh/helm/v4/pkg/chart/loader"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	loader "helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/getter"
)

type entry struct {
	Name string `json:"name"`
	Text string `json:"text"`
	Data []byte `json:"data"`
	Kind string `json:"kind"`
	Link string `json:"link"`
	// entries of an archive in the archive
	Entries []entry `json:"entries"`
}

type user struct {
	Files      []string `json:"files"`
	Set        []string `json:"set"`
	SetString  []string `json:"set_string"`
	SetFile    []string `json:"set_file"`
	SetJSON    []string `json:"set_json"`
	SetLiteral []string `json:"set_literal"`
}

type question struct {
	Do      string         `json:"do"`
	Entries []entry        `json:"entries"`
	Text    string         `json:"text"`
	User    *user          `json:"user"`
	Values  map[string]any `json:"values"`
	Kube    string         `json:"kube"`
}


func (e entry) bytes() []byte {
	switch {
	case e.Entries != nil:
		return tgz(e.Entries)
	case e.Data != nil:
		return e.Data
	}
	return []byte(e.Text)
}

func tgz(entries []entry) []byte {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	file := tar.NewWriter(zip)
	for _, e := range entries {
		header := &tar.Header{Name: e.Name, Mode: 0o644, Size: int64(len(e.bytes())), Typeflag: tar.TypeReg}
		switch e.Kind {
		case "link":
			header.Typeflag, header.Linkname, header.Size = tar.TypeSymlink, e.Link, 0
		case "hard":
			header.Typeflag, header.Linkname, header.Size = tar.TypeLink, e.Link, 0
		case "directory":
			header.Typeflag, header.Size = tar.TypeDir, 0
		case "pipe":
			header.Typeflag, header.Size = tar.TypeFifo, 0
		}
		if err := file.WriteHeader(header); err != nil {
			panic(err)
		}
		if header.Size > 0 {
			if _, err := file.Write(e.bytes()); err != nil {
				panic(err)
			}
		}
	}
	file.Close()
	zip.Close()
	return out.Bytes()
}

// Floats keep their point, so that an int64 can be told from a float64.
func shape(out *bytes.Buffer, value any) {
	switch value := value.(type) {
	case float64:
		text := strconv.FormatFloat(value, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		out.WriteString(text)
	case []any:
		out.WriteByte('[')
		for i, item := range value {
			if i > 0 {
				out.WriteByte(',')
			}
			shape(out, item)
		}
		out.WriteByte(']')
	case common.Values:
		shape(out, map[string]any(value))
	case map[string]any:
		keys := make([]string, 0, len(value))
		for key := range value {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		out.WriteByte('{')
		for i, key := range keys {
			if i > 0 {
				out.WriteByte(',')
			}
			shape(out, key)
			out.WriteByte(':')
			shape(out, value[key])
		}
		out.WriteByte('}')
	default:
		plain, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		out.Write(plain)
	}
}

func files(list []*common.File) []any {
	out := []any{}
	for _, f := range list {
		out = append(out, f.Name)
	}
	return out
}

func described(c *chart.Chart) map[string]any {
	var metadata, lock any
	roundTrip(c.Metadata, &metadata)
	subcharts := []any{}
	for _, sub := range c.Dependencies() {
		subcharts = append(subcharts, described(sub))
	}
	sort.SliceStable(subcharts, func(i, j int) bool { return label(subcharts[i]) < label(subcharts[j]) })
	out := map[string]any{
		"metadata": metadata, "templates": files(c.Templates), "files": files(c.Files), "values": c.Values, "charts": subcharts,
	}
	if c.Lock != nil {
		roundTrip(c.Lock, &lock)
		out["lock"] = lock
	}
	if c.Schema != nil {
		out["schema"] = string(c.Schema)
	}
	return out
}

func label(described any) string {
	metadata := described.(map[string]any)["metadata"].(map[string]any)
	return fmt.Sprintf("%v %v", metadata["name"], metadata["version"])
}

func roundTrip(from, into any) {
	text, err := json.Marshal(from)
	if err != nil {
		panic(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		panic(err)
	}
}

func chartOf(q question) (*chart.Chart, error) {
	var list []*archive.BufferedFile
	for _, e := range q.Entries {
		list = append(list, &archive.BufferedFile{Name: e.Name, Data: e.bytes()})
	}
	return loader.LoadFiles(list)
}

func folder(q question) (string, error) {
	dir, err := os.MkdirTemp("", "chart")
	if err != nil {
		return "", err
	}
	for _, e := range q.Entries {
		path := filepath.Join(dir, e.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return dir, err
		}
		switch e.Kind {
		case "link":
			err = os.Symlink(e.Link, path)
		case "directory":
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, e.bytes(), 0o644)
		}
		if err != nil {
			return dir, err
		}
	}
	return dir, nil
}

func overridden(u user) (map[string]any, error) {
	dir, err := os.MkdirTemp("", "values")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	options := values.Options{Values: u.Set, StringValues: u.SetString, JSONValues: u.SetJSON, LiteralValues: u.SetLiteral, FileValues: u.SetFile}
	for i, text := range u.Files {
		path := filepath.Join(dir, fmt.Sprintf("%d.yaml", i))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return nil, err
		}
		options.ValueFiles = append(options.ValueFiles, path)
	}
	merged, err := options.MergeValues(getter.Providers{})
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), dir+"/", ""))
	}
	return merged, nil
}

func run(q question) (any, error) {
	given := q.Values
	if q.User != nil {
		merged, err := overridden(*q.User)
		if err != nil {
			return nil, err
		}
		given = merged
	}
	switch q.Do {
	case "files":
		c, err := chartOf(q)
		if err != nil {
			return nil, err
		}
		return described(c), nil
	case "archive":
		c, err := charts.LoadArchive(bytes.NewReader(tgz(q.Entries)))
		if err != nil {
			return nil, err
		}
		return described(c.(*chart.Chart)), nil
	case "directory":
		dir, err := folder(q)
		defer os.RemoveAll(dir)
		if err != nil {
			return nil, err
		}
		c, err := charts.LoadDir(dir)
		if err != nil {
			return nil, errors.New(strings.ReplaceAll(err.Error(), dir, "DIR"))
		}
		return described(c.(*chart.Chart)), nil
	case "read":
		return loader.LoadValues(strings.NewReader(q.Text))
	case "user":
		return given, nil
	}
	c, err := chartOf(q)
	if err != nil {
		return nil, err
	}
	switch q.Do {
	case "coalesce":
		return util.CoalesceValues(c, given)
	case "process":
		if err := chartutil.ProcessDependencies(c, given); err != nil {
			return nil, err
		}
		return described(c), nil
	case "values":
		if err := chartutil.ProcessDependencies(c, given); err != nil {
			return nil, err
		}
		top, err := util.ToRenderValues(c, given, common.ReleaseOptions{}, nil)
		if err != nil {
			return nil, err
		}
		return top["Values"], nil
	}
	return nil, fmt.Errorf("no such question: %s", q.Do)
}

type kept struct{ lines []string }

func (k *kept) Write(line []byte) (int, error) {
	k.lines = append(k.lines, strings.TrimSpace(string(line)))
	return len(line), nil
}

func main() {
	warnings := &kept{}
	log.SetOutput(warnings)
	log.SetFlags(0)
	slog.SetDefault(slog.New(slog.NewTextHandler(warnings, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	// the text handler took log's output over
	log.SetOutput(warnings)
	log.SetFlags(0)
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var q question
			if err := json.Unmarshal(line, &q); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			warnings.lines = nil
			output, failed := run(q)
			answer := map[string]any{}
			if failed != nil {
				answer["error"] = failed.Error()
			} else {
				answer["output"] = output
			}
			if len(warnings.lines) > 0 {
				lines := []any{}
				sort.Strings(warnings.lines)
				for _, line := range warnings.lines {
					lines = append(lines, line)
				}
				answer["warnings"] = lines
			}
			var text bytes.Buffer
			shape(&text, answer)
			fmt.Fprintln(out, text.String())
		}
		if errors.Is(err, io.EOF) {
			return
		}
	}
}
