// Answers for the cases of crates/template/tests/golden: one JSON object per line in, the same with
// `output` or `error` out. The functions are those of Helm's engine itself.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/template"
	_ "unsafe"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
)

//go:linkname funcMap helm.sh/helm/v4/pkg/engine.funcMap
func funcMap() template.FuncMap

type question struct {
	Template string          `json:"template"`
	Data     json.RawMessage `json:"data"`
	Mode     string          `json:"mode"`
	// the templates of a chart named "c", instead of one template
	Files map[string]string `json:"files"`
}

type answer struct {
	// of a chart: what each file became
	Rendered map[string]string `json:"rendered,omitempty"`

	Output *string `json:"output,omitempty"`
	Bytes  []byte  `json:"bytes,omitempty"`
	Error  string  `json:"error,omitempty"`
}

func include(t *template.Template, nested map[string]int) func(string, any) (string, error) {
	return func(name string, data any) (string, error) {
		if nested[name] > 1000 {
			return "", fmt.Errorf("rendering template has a nested reference name: %s: %w", name, errors.New("unable to execute template"))
		}
		nested[name]++
		defer func() { nested[name]-- }()
		var out strings.Builder
		err := t.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
}

func tpl(parent *template.Template, option string, nested map[string]int) func(string, any) (string, error) {
	return func(text string, data any) (string, error) {
		t, err := parent.Clone()
		if err != nil {
			return "", err
		}
		t.Option(option)
		t.Funcs(template.FuncMap{"include": include(t, nested), "tpl": tpl(t, option, nested)})
		if t, err = t.New(parent.Name()).Parse(text); err != nil {
			return "", fmt.Errorf("cannot parse template %q: %w", text, err)
		}
		var out strings.Builder
		if err := t.Execute(&out, data); err != nil {
			return "", fmt.Errorf("error during tpl function execution for %q: %w", text, err)
		}
		return strings.ReplaceAll(out.String(), "<no value>", ""), nil
	}
}

func required(message string, value any) (any, error) {
	if value == nil || value == "" {
		return value, errors.New(message)
	}
	return value, nil
}

func run(q question) (string, error) {
	var data any
	if len(q.Data) > 0 {
		if err := json.Unmarshal(q.Data, &data); err != nil {
			return "", err
		}
	}
	root := template.New("gotpl")
	option := map[string]string{"go": "missingkey=default", "strict": "missingkey=error", "": "missingkey=zero"}[q.Mode]
	root.Option(option)
	if q.Mode != "go" {
		functions := funcMap()
		nested := map[string]int{}
		functions["include"] = include(root, nested)
		functions["tpl"] = tpl(root, option, nested)
		functions["required"] = required
		functions["fail"] = func(message string) (string, error) { return "", errors.New(message) }
		functions["getHostByName"] = func(string) string { return "" }
		root.Funcs(functions)
	}
	if _, err := root.New("t").Parse(q.Template); err != nil {
		return "", err
	}
	var out strings.Builder
	err := root.ExecuteTemplate(&out, "t", data)
	return out.String(), err
}

// The files as a chart, rendered by Helm's engine.
func render(q question) (map[string]string, error) {
	values := map[string]any{}
	if len(q.Data) > 0 {
		if err := json.Unmarshal(q.Data, &values); err != nil {
			return nil, err
		}
	}
	c := &chart.Chart{Metadata: &chart.Metadata{Name: "c", Version: "0.1.0", APIVersion: "v2"}}
	for name, text := range q.Files {
		c.Templates = append(c.Templates, &common.File{Name: name, Data: []byte(text)})
	}
	return engine.Engine{}.Render(c, common.Values{"Values": values})
}

// The names of all functions a chart may call, the language's own included.
func names() []string {
	all := slices.Collect(maps.Keys(funcMap()))
	// text/template keeps its own to itself
	for _, name := range strings.Fields("and break call continue eq ge gt html index js le len lt ne not or print printf println slice urlquery") {
		if _, err := template.New("t").Parse("{{" + name + " 1}}"); err == nil && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	all = append(all, "fail", "getHostByName")
	slices.Sort(all)
	return slices.Compact(all)
}

func main() {
	os.Setenv("TZ", "UTC")
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for in.Scan() {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			panic(err)
		}
		var a answer
		if q.Mode == "functions" {
			all := strings.Join(names(), "\n")
			a.Output = &all
		} else if q.Files != nil {
			rendered, err := render(q)
			if err != nil {
				a.Error = err.Error()
			} else {
				a.Rendered = rendered
			}
		} else if text, err := run(q); err != nil {
			a.Error = err.Error()
		} else if strings.ToValidUTF8(text, "") != text {
			a.Bytes = []byte(text)
		} else {
			a.Output = &text
		}
		if err := out.Encode(a); err != nil {
			panic(err)
		}
	}
}
