// Fills objects of Kubernetes' types at random and prints their JSON and protobuf forms.
//
// Each line of the input names a kind and a seed; seed 0 is the empty object.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	aggregator "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/randfill"
)

type question struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Seed       int64  `json:"seed"`
}

func word(c randfill.Continue) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	var out strings.Builder
	for range 1 + c.Intn(4) {
		out.WriteByte(letters[c.Intn(len(letters))])
	}
	return out.String()
}

func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.8).NumElements(1, 2).MaxDepth(14).Funcs(
		func(s *string, c randfill.Continue) { *s = word(c) },
		func(b *[]byte, c randfill.Continue) { *b = []byte(word(c)) },
		func(f *float64, c randfill.Continue) { *f = float64(c.Intn(2000)-1000) / 4 },
		func(t *metav1.TypeMeta, c randfill.Continue) {},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(4_000_000_000), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(metav1.Unix(c.Int63n(4_000_000_000), c.Int63n(1_000_000)*1000).Time)
		},
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse([]string{"0", "5", "250m", "64Mi", "-3", "1500"}[c.Intn(6)])
		},
		func(i *intstr.IntOrString, c randfill.Continue) {
			*i = intstr.FromInt32(c.Int31() - 1<<30)
			if c.Bool() {
				*i = intstr.FromString(word(c))
			}
		},
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = []byte(`{"a":[1,"b"]}`) },
		func(f *metav1.FieldsV1, c randfill.Continue) { f.Raw = []byte(`{"f:a":{}}`) },
		func(j *apiextensions.JSON, c randfill.Continue) { j.Raw = []byte(`"` + word(c) + `"`) },
		func(s *apiextensions.JSONSchemaPropsOrArray, c randfill.Continue) {
			s.Schema = &apiextensions.JSONSchemaProps{Type: word(c)}
			if c.Bool() {
				*s = apiextensions.JSONSchemaPropsOrArray{JSONSchemas: []apiextensions.JSONSchemaProps{{Title: word(c)}, {}}}
			}
		},
		func(s *apiextensions.JSONSchemaPropsOrBool, c randfill.Continue) {
			s.Allows = c.Bool()
			if c.Bool() {
				*s = apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensions.JSONSchemaProps{Type: word(c)}}
			}
		},
		func(s *apiextensions.JSONSchemaPropsOrStringArray, c randfill.Continue) {
			s.Property = []string{word(c), word(c)}
			if c.Bool() {
				*s = apiextensions.JSONSchemaPropsOrStringArray{Schema: &apiextensions.JSONSchemaProps{ID: word(c)}}
			}
		},
	)
}

func answer(asked question) (map[string]any, error) {
	kind := schema.FromAPIVersionAndKind(asked.APIVersion, asked.Kind)
	object, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	if asked.Seed > 0 {
		filler(asked.Seed).Fill(object)
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var bytes strings.Builder
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &bytes); err != nil {
		return nil, err
	}
	return map[string]any{
		"json": json.RawMessage(text),
		"pb":   base64.StdEncoding.EncodeToString([]byte(bytes.String())),
	}, nil
}

func main() {
	for _, add := range []func(*runtime.Scheme) error{apiextensions.AddToScheme, aggregator.AddToScheme} {
		if err := add(scheme.Scheme); err != nil {
			panic(err)
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		said, err := answer(asked)
		if err != nil {
			panic(fmt.Sprintf("%s: %v", lines.Text(), err))
		}
		if err := out.Encode(said); err != nil {
			panic(err)
		}
	}
}
