// The judge of charts: Helm itself, version 4.2.3.
//
// `judge helm ARGUMENTS` is Helm's own command line. `judge render` reads questions, one JSON object a
// line, and answers each in a line: the text of each template as the engine makes it, or the error.
// `judge bench` answers the same with times: of loading a chart, and of rendering it many times.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	helmcmd "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

type question struct {
	// The chart: a directory or an archive.
	Chart string `json:"chart"`
	// The user's values, YAML.
	Values string `json:"values"`
	// How often it is rendered, for times.
	Times int `json:"times"`
}

type answer struct {
	Texts map[string]string `json:"texts,omitempty"`
	Error string            `json:"error,omitempty"`
	// Milliseconds.
	Load   float64   `json:"load"`
	Render []float64 `json:"render,omitempty"`
}

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	switch mode {
	case "helm":
		os.Args = append([]string{"helm"}, os.Args[2:]...)
		commandLine()
	case "render", "bench":
		answers(mode == "bench")
	default:
		fmt.Fprintln(os.Stderr, "judge helm|render|bench")
		os.Exit(2)
	}
}

func commandLine() {
	command, err := helmcmd.NewRootCmd(os.Stdout, os.Args[1:], helmcmd.SetupLogging)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := command.Execute(); err != nil {
		os.Exit(1)
	}
}

func answers(timed bool) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			var q question
			if err := json.Unmarshal(line, &q); err != nil {
				panic(err)
			}
			if err := out.Encode(run(q, timed)); err != nil {
				panic(err)
			}
		}
		if err != nil {
			return
		}
	}
}

func load(path string) (*chart.Chart, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return loader.Load(path)
}

func run(q question, timed bool) answer {
	var a answer
	began := time.Now()
	loaded, err := load(q.Chart)
	a.Load = milliseconds(began)
	if err != nil {
		a.Error = err.Error()
		return a
	}
	times := 1
	if timed {
		times = max(1, q.Times)
	}
	for i := range times {
		if i > 0 {
			// a render changes the chart it works on
			if loaded, err = load(q.Chart); err != nil {
				a.Error = err.Error()
				return a
			}
		}
		began := time.Now()
		texts, err := render(loaded, q.Values)
		if timed {
			a.Render = append(a.Render, milliseconds(began))
		}
		if err != nil {
			a.Error = err.Error()
			return a
		}
		if !timed {
			a.Texts = texts
		}
	}
	return a
}

func render(loaded *chart.Chart, text string) (map[string]string, error) {
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		return nil, err
	}
	if wanted := loaded.Metadata.Dependencies; wanted != nil {
		var missing []string
	next:
		for _, dependency := range wanted {
			for _, present := range loaded.Dependencies() {
				if present.Metadata.Name == dependency.Name {
					continue next
				}
			}
			missing = append(missing, dependency.Name)
		}
		if len(missing) > 0 {
			return nil, fmt.Errorf("found in Chart.yaml, but missing in charts/ directory: %s", strings.Join(missing, ", "))
		}
	}
	// what follows is how an installation goes, up to the texts
	if err := chartutil.ProcessDependencies(loaded, values); err != nil {
		return nil, fmt.Errorf("chart dependencies processing failed: %w", err)
	}
	options := common.ReleaseOptions{Name: "demo", Namespace: "default", Revision: 1, IsInstall: true}
	top, err := util.ToRenderValues(loaded, values, options, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	kubernetes := common.DefaultCapabilities.KubeVersion.String()
	if wanted := loaded.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, kubernetes) {
		return nil, fmt.Errorf("chart requires kubeVersion: %s which is incompatible with Kubernetes %s", wanted, kubernetes)
	}
	return engine.Render(loaded, top)
}

func milliseconds(since time.Time) float64 {
	return float64(time.Since(since).Microseconds()) / 1000
}
