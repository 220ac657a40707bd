// Answers of cel-go: one question of JSON per line, one answer per line.
//
// The environments are those of Flux 2.9 (pkg/runtime/cel) and of Kubernetes 1.36 (apiserver/pkg/cel/environment),
// with the variables v and w.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	"k8s.io/apiserver/pkg/cel/library"
)

// show writes a value as the tests of the crate do.
func show(v ref.Val) string {
	switch t := v.(type) {
	case types.Null:
		return "null"
	case types.Bool:
		return fmt.Sprint(bool(t))
	case types.Int:
		return fmt.Sprint(int64(t))
	case types.Uint:
		return fmt.Sprintf("%du", uint64(t))
	case types.Double:
		return fmt.Sprintf("double %v", float64(t))
	case types.String:
		b, _ := json.Marshal(string(t))
		return string(b)
	case types.Bytes:
		return fmt.Sprintf("bytes %x", []byte(t))
	case types.Duration:
		return fmt.Sprintf("duration %d", t.Duration.Nanoseconds())
	case types.Timestamp:
		return fmt.Sprintf("timestamp %d", t.Time.UnixNano())
	case *types.Type:
		return "type " + t.TypeName()
	case *types.Optional:
		if !t.HasValue() {
			return "optional.none"
		}
		return "optional " + show(t.GetValue())
	case traits.Lister:
		var parts []string
		it := t.Iterator()
		for it.HasNext() == types.True {
			parts = append(parts, show(it.Next()))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case traits.Mapper:
		var parts []string
		it := t.Iterator()
		for it.HasNext() == types.True {
			k := it.Next()
			parts = append(parts, show(k)+": "+show(t.Get(k)))
		}
		sort.Strings(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return v.Type().TypeName()
}

func must(env *cel.Env, err error) *cel.Env {
	if err != nil {
		panic(err)
	}
	return env
}

// integers reads whole numbers of JSON as Flux reads those of objects.
func integers(v any) any {
	switch t := v.(type) {
	case float64:
		if t == float64(int64(t)) {
			return int64(t)
		}
	case []any:
		for i := range t {
			t[i] = integers(t[i])
		}
	case map[string]any:
		for k := range t {
			t[k] = integers(t[k])
		}
	}
	return v
}

func main() {
	vars := []cel.EnvOption{cel.Variable("v", cel.DynType), cel.Variable("w", cel.DynType)}
	flux := must(cel.NewEnv(append([]cel.EnvOption{
		cel.HomogeneousAggregateLiterals(), cel.EagerlyValidateDeclarations(true), cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), ext.Strings(), ext.Sets(), ext.Encoders(),
	}, vars...)...))
	kube := must(cel.NewEnv(append([]cel.EnvOption{
		cel.HomogeneousAggregateLiterals(), cel.EagerlyValidateDeclarations(true), cel.DefaultUTCTimeZone(true),
		library.URLs(), library.Regex(), library.Lists(),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), library.Quantity(),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals()),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(), library.IP(), library.CIDR(), library.Format(),
		ext.TwoVarComprehensions(), library.SemverLib(library.SemverVersion(1)), ext.Lists(ext.ListsVersion(3)),
	}, vars...)...))
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<24)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for in.Scan() {
		var asked question
		if err := json.Unmarshal(in.Bytes(), &asked); err != nil {
			panic(err)
		}
		env := flux
		if asked.Env == "kube" {
			env = kube
		}
		if err := out.Encode(answer(env, asked)); err != nil {
			panic(err)
		}
	}
}

type question struct {
	Env  string
	Expr string
	V    any
}

func answer(env *cel.Env, asked question) map[string]string {
	ast, issues := env.Parse(asked.Expr)
	if issues.Err() != nil {
		return map[string]string{"parse": issues.String()}
	}
	checked, issues := env.Check(ast)
	if issues.Err() == nil {
		ast = checked
	} else if onlyUndeclared(issues) {
		return map[string]string{"check": issues.String()}
	}
	// other errors of types are those of the run
	program, err := env.Program(ast)
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	value, _, err := program.Eval(map[string]any{"v": integers(asked.V), "w": nil})
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return map[string]string{"value": show(value)}
}

func onlyUndeclared(issues *cel.Issues) bool {
	for _, issue := range issues.Errors() {
		if !strings.Contains(issue.Message, "undeclared reference") {
			return false
		}
	}
	return true
}
