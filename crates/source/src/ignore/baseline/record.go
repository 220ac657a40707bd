// Records what Flux's own matcher decides, for crates/source/src/ignore/tests.rs:
//
//	go mod init record && go get github.com/fluxcd/pkg/sourceignore@v0.18.0 && go run . > baseline.jsonl
//
// One JSON object a line: the patterns of spec.ignore, the .sourceignore files by directory, and the
// directories (ending in "/") and files that are left out of the artifact, and those that are kept.
package main

import (
	"encoding/json"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"strings"

	"github.com/fluxcd/pkg/sourceignore"
)

type record struct {
	Spec  string            `json:"spec,omitempty"`
	Files map[string]string `json:"files,omitempty"`
	Out   []string          `json:"out"`
	Kept  []string          `json:"kept"`
}

func main() {
	for _, one := range chosen() {
		print(one.spec, one.files, one.paths)
	}
	random := rand.New(rand.NewSource(4))
	for range 300 {
		files := map[string]string{}
		for range random.Intn(3) {
			files[directory(random)] = patterns(random)
		}
		spec := ""
		if random.Intn(4) > 0 {
			spec = patterns(random)
		}
		paths := []string{}
		for range 10 {
			paths = append(paths, path(random))
		}
		print(spec, files, paths)
	}
}

var names = []string{"a", "b", "ab", "a.yaml", "b.yaml", "a.png", "x-1", "deploy"}

func path(random *rand.Rand) string {
	segments := []string{}
	for range 1 + random.Intn(4) {
		segments = append(segments, names[random.Intn(3)])
	}
	return strings.Join(append(segments, names[random.Intn(len(names))]), "/")
}

func directory(random *rand.Rand) string {
	segments := []string{}
	for range random.Intn(3) {
		segments = append(segments, names[random.Intn(3)])
	}
	return strings.Join(segments, "/")
}

func patterns(random *rand.Rand) string {
	segments := []string{"a", "b", "ab", "*", "**", "a*", "*.yaml", "?", "[ab]", "[^a]", "[!a]", "a**", "[", "x-1", "*.png", "\\a"}
	lines := []string{}
	for range 1 + random.Intn(4) {
		line := ""
		if random.Intn(3) == 0 {
			line += "!"
		}
		if random.Intn(3) == 0 {
			line += "/"
		}
		count := 1 + random.Intn(3)
		for at := range count {
			if at > 0 {
				line += "/"
			}
			line += segments[random.Intn(len(segments))]
		}
		if random.Intn(4) == 0 {
			line += "/"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func print(spec string, files map[string]string, paths []string) {
	root, err := os.MkdirTemp("", "ignore")
	check(err)
	defer os.RemoveAll(root)
	for _, path := range paths {
		full := filepath.Join(root, path)
		if strings.HasSuffix(path, "/") {
			_ = os.MkdirAll(full, 0o755)
			continue
		}
		if os.MkdirAll(filepath.Dir(full), 0o755) != nil {
			continue
		}
		_ = os.WriteFile(full, nil, 0o644)
	}
	for directory, text := range files {
		if os.MkdirAll(filepath.Join(root, directory), 0o755) != nil {
			delete(files, directory)
			continue
		}
		check(os.WriteFile(filepath.Join(root, directory, ".sourceignore"), []byte(text), 0o644))
	}
	domain := strings.Split(root, "/")
	ps, err := sourceignore.LoadIgnorePatterns(root, domain)
	check(err)
	ps = append(ps, sourceignore.ReadPatterns(strings.NewReader(spec), domain)...)
	matcher := sourceignore.NewDefaultMatcher(ps, domain)
	if len(ps) > 0 {
		matcher = sourceignore.NewMatcher(append(sourceignore.VCSPatterns(domain), ps...))
	}
	out := record{Spec: spec, Files: files, Out: []string{}, Kept: []string{}}
	check(filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		check(err)
		if path == root {
			return nil
		}
		relative := strings.TrimPrefix(path, root+"/")
		if entry.IsDir() {
			relative += "/"
		}
		if matcher.Match(strings.Split(path, "/"), entry.IsDir()) {
			out.Out = append(out.Out, relative)
		} else {
			out.Kept = append(out.Kept, relative)
		}
		return nil
	}))
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	check(encoder.Encode(out))
}

type input struct {
	spec  string
	files map[string]string
	paths []string
}

func chosen() []input {
	none := map[string]string{}
	typical := []string{
		".gitignore", ".gitmodules", ".gitattributes", ".github/workflows/e2e.yaml", ".circleci/config.yml",
		".travis.yml", ".gitlab-ci.yml", "appveyor.yml", ".drone.yml", "cloudbuild.yaml", "codeship-services.yml",
		"codeship-steps.yml", ".goreleaser.yml", "x/.goreleaser.yml", ".sops.yaml", "x/.sops.yaml", "x/.flux.yaml",
		"x/.travis.yml", "x/.github/a.yaml", "logo.png", "x/logo.png", "docs/a.jpg", "b.jpeg", "c.gif", "d.wmv",
		"e.flv", "f.tar.gz", "g.zip", "deploy/app.yaml", "deploy/base/kustomization.yaml", "README.md", "a b.yaml",
		"png", "x.PNG", ".git/config", "x/.git/config", "github/a",
	}
	all := []input{{"", none, typical}, {"# nothing\n\n   \n", none, typical}}
	for _, spec := range []string{
		"# exclude all\n/*\n# include deploy dir\n!/deploy", "/*\n!/deploy\n/deploy/base", "*.png", "!.gitignore",
		"!.git", "deploy/", "deploy", "/deploy/", "/deploy/**", "deploy/**", "**/base", "**/base/", "/**", "**",
		"**/*.yaml", "**/a/b", "deploy/base/\n!deploy/base/kustomization.yaml", "deploy/*.yaml", "*/base",
		"a b.yaml", "a\\ b.yaml", "a b.yaml   ", "README.md\r\nlogo.png\r\n", "\\README.md", "[R]EADME.md", "[^R]*",
		"[!R]*", "[", "[]", "[]R]*", "[R-]*", "[A-S]EADME.md", "\\#a", " README.md", "!", "/", "//deploy", "deploy//base",
		"x/**/a.yaml", "**/x/**", "x**", "x/a**/b", "*.y?ml", "d*y/b*/k*", "README.md\n!README.md", "!README.md\nREADME.md",
		"\\", "README.md\\", "README.md\\ ", "*.TAR.GZ", "?", "??", "*\n!*/\n!*.yaml", "*\n!*.yaml", "[^", "[a", "[a-", "{README.md,x}",
	} {
		all = append(all, input{spec, none, typical})
	}
	nested := []string{"a/x.yaml", "a/b/x.yaml", "a/b/c/x.yaml", "a/b/c/y.yaml", "x.yaml", "logo.png", "a/logo.png"}
	for _, files := range []map[string]string{
		{"": "x.yaml"}, {"a": "x.yaml"}, {"a": "/x.yaml"}, {"a/b": "x.yaml\n"}, {"a": "b/"}, {"a": "b/c/x.yaml"},
		{"": "x.yaml", "a/b": "!x.yaml"}, {"": "a", "a/b/c": "!*"}, {"a": "x.yaml", "a/b": "!x.yaml", "a/b/c": "x.yaml"},
		{"a/b": "# none"}, {"": "*.png"}, {"a": "*.none"},
	} {
		for _, spec := range []string{"", "!x.yaml", "/a/b", "y.yaml"} {
			copied := map[string]string{}
			for directory, text := range files {
				copied[directory] = text
			}
			all = append(all, input{spec, copied, nested})
		}
	}
	return all
}
