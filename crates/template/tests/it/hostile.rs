//! Templates that would exhaust time or memory, and the limits that end them. The bench `hostile` runs the
//! same.

/// A value that contains a small one 2^40 times: each level doubles the one below.
const LAUGHS: &str = r#"{{ $l := list "ha" }}{{ range 40 }}{{ $l = list $l $l }}{{ end }}"#;
/// The same as maps.
const MAPS: &str = r#"{{ $d := dict "a" "ha" }}{{ range 40 }}{{ $d = dict "a" $d "b" $d }}{{ end }}"#;
/// A map that contains itself.
const SELF: &str = r#"{{ $d := dict }}{{ $_ := set $d "self" $d }}"#;

/// The end of a template: a limit, or else an error of Helm's own.
pub(crate) const STEPS: &str = "steps";
pub(crate) const MADE: &str = "bytes of values";
pub(crate) const OUTPUT: &str = "bytes of output";
pub(crate) const CALLS: &str = "templates called more than";
pub(crate) const DEPTH: &str = "nested deeper than";
pub(crate) const NESTED: &str = "nested reference name";

/// A template (its prefix, and itself), and a part of the error.
pub(crate) const TEMPLATES: &[(&str, &str, &str)] = &[
    // calls
    (
        "",
        r#"{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}"#,
        NESTED,
    ),
    (
        "",
        r#"{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}"#,
        CALLS,
    ),
    (
        "",
        r#"{{ define "a" }}{{ include "b" . }}{{ include "b" . }}{{ end }}{{ define "b" }}{{ include "c" . }}{{ include "c" . }}{{ end }}{{ define "c" }}{{ range 1000 }}{{ range 1000 }}{{ range 1000 }}x{{ end }}{{ end }}{{ end }}{{ end }}{{ include "a" . }}"#,
        STEPS,
    ),
    (
        "",
        r#"{{ define "a" }}{{ tpl "{{ include `a` . }}" . }}{{ end }}{{ include "a" . }}"#,
        NESTED,
    ),
    (
        "",
        r#"{{ $t := "{{ tpl .t . }}" }}{{ tpl $t (dict "t" $t) }}"#,
        CALLS,
    ),
    (
        "",
        r#"{{ $t := "{{ tpl (print .t .t) (dict `t` (print .t .t)) }}" }}{{ tpl $t (dict "t" $t) }}"#,
        "",
    ),
    (
        "",
        r#"{{ range 100000000 }}{{ $_ := tpl (printf "{{ %d }}" .) $ }}{{ end }}"#,
        "",
    ),
    (
        "",
        r#"{{ $x := repeat 400000 "{{.}}" }}{{ range 1000000 }}{{ $_ := tpl (print $x .) 1 }}{{ end }}"#,
        "",
    ),
    // loops
    ("", "{{ range 1000000000 }}{{ end }}", STEPS),
    (
        "",
        "{{ range 100000 }}{{ range 100000 }}x{{ end }}{{ end }}",
        STEPS,
    ),
    ("", "{{ range 1000000000 }}{{ now }}{{ end }}", ""),
    // one call makes much
    ("", r#"{{ repeat 1000000000 "x" }}"#, ""),
    ("", r#"{{ repeat 9223372036854775807 "xx" }}"#, ""),
    ("", "{{ until 100000000 }}", ""),
    ("", "{{ untilStep 0 1000000000 1 }}", ""),
    ("", "{{ seq 1 100000000 }}", ""),
    (
        "",
        r#"{{ printf "%999999999d" 1 }}{{ range 100000 }}{{ printf "%900000d" 1 }}{{ end }}"#,
        OUTPUT,
    ),
    (
        "",
        r#"{{ range 1000000000 }}{{ $_ := printf "%1000000d%1000000d" 1 2 }}{{ end }}"#,
        MADE,
    ),
    ("", r#"{{ indent 100000000 "a\nb\nc" }}"#, ""),
    ("", r#"{{ $x := repeat 1000000 "\n" }}{{ nindent 1000 $x }}"#, ""),
    (
        "",
        r#"{{ replace "" "xxxxxxxxxxxxxxxxxxxx" (repeat 9000000 "x") }}"#,
        "",
    ),
    (
        "",
        r#"{{ $x := "x" }}{{ range 1000 }}{{ $x = b64enc $x }}{{ end }}"#,
        MADE,
    ),
    (
        "",
        r#"{{ $x := "x" }}{{ range 1000 }}{{ $x = print $x $x }}{{ end }}"#,
        "",
    ),
    (
        "",
        r#"{{ $x := "\u0001" }}{{ range 1000 }}{{ $x = quote $x }}{{ end }}"#,
        MADE,
    ),
    (
        "",
        r#"{{ $x := repeat 1000000 "é" }}{{ range 100000 }}{{ $_ := snakecase $x }}{{ $_ := title $x }}{{ end }}"#,
        "",
    ),
    ("", "{{ randAlphaNum 1000000000 }}", ""),
    ("", r#"{{ splitList "" (repeat 9000000 "x") }}"#, ""),
    (
        "",
        r#"{{ $x := repeat 2000000 "1.2." }}{{ range 10000000 }}{{ $_ := semver (printf "1.2.%d" .) }}{{ end }}"#,
        STEPS,
    ),
    (
        "",
        r#"{{ range 1000000000 }}{{ $_ := semverCompare ">=1.2.3 <4 || ~5 || ^6" "7.8.9-a.b" }}{{ end }}"#,
        STEPS,
    ),
    ("", r#"{{ date (repeat 3000000 "2006") now }}"#, ""),
    // small in memory, large in print
    (LAUGHS, "{{ $l }}", ""),
    (LAUGHS, "{{ toJson $l }}", MADE),
    (LAUGHS, "{{ toYaml $l }}", MADE),
    (LAUGHS, "{{ toYamlPretty $l }}", MADE),
    (LAUGHS, r#"{{ toToml (dict "a" $l) }}"#, ""),
    (LAUGHS, "{{ deepCopy $l }}", ""),
    (LAUGHS, r#"{{ join "," (list $l $l $l) }}"#, ""),
    (LAUGHS, "{{ quote $l $l $l $l $l $l }}", ""),
    (LAUGHS, "{{ cat $l $l $l $l $l $l }}", ""),
    (
        LAUGHS,
        r#"{{ $m := list "ha" }}{{ range 40 }}{{ $m = list $m $m }}{{ end }}{{ deepEqual $l $m }}"#,
        STEPS,
    ),
    (
        LAUGHS,
        r#"{{ $m := list "ha" }}{{ range 40 }}{{ $m = list $m $m }}{{ end }}{{ has $m (list $l) }}"#,
        STEPS,
    ),
    (MAPS, "{{ toYaml $d }}", MADE),
    (MAPS, "{{ deepCopy $d }}", ""),
    (MAPS, "{{ toToml $d }}", ""),
    (
        MAPS,
        r#"{{ $e := dict "a" 1 }}{{ range 40 }}{{ $e = dict "a" $e "b" $e }}{{ end }}{{ mustMergeOverwrite $d $e }}"#,
        "",
    ),
    (SELF, "{{ toYaml $d }}", DEPTH),
    (SELF, "{{ toJson $d }}", DEPTH),
    (SELF, "{{ toToml $d }}", ""),
    (SELF, "{{ $d }}", DEPTH),
    (SELF, "{{ deepCopy $d }}", DEPTH),
    (
        SELF,
        r#"{{ $e := dict }}{{ $_ := set $e "self" $e }}{{ mergeOverwrite $d $e }}"#,
        DEPTH,
    ),
    (
        SELF,
        r#"{{ $e := dict }}{{ $_ := set $e "self" $e }}{{ deepEqual $d $e }}"#,
        DEPTH,
    ),
    (
        "",
        r#"{{ $l := list }}{{ range 20000 }}{{ $l = list $l }}{{ end }}{{ toYaml $l }}"#,
        DEPTH,
    ),
    // parsing
    (
        "",
        r#"{{ fromYaml (printf "a: %s1" (repeat 100000 "[")) }}{{ fromJson (repeat 100000 "[") }}{{ range 1000000000 }}{{ end }}"#,
        STEPS,
    ),
    (
        "",
        r#"{{ $x := repeat 3000000 "[1]," }}{{ range 1000 }}{{ $_ := fromYamlArray (print "[" $x "1]") }}{{ end }}"#,
        "",
    ),
    // expressions
    (
        "",
        r#"{{ range 1000000000 }}{{ $_ := regexMatch (printf "(a{1,100}){1,100}b{%d}" (mod . 900)) "aaa" }}{{ end }}"#,
        STEPS,
    ),
    (
        "",
        r#"{{ $x := repeat 1000000 "x" }}{{ $_ := regexFindAll "x*y|x" $x -1 }}"#,
        "",
    ),
    (
        "",
        r#"{{ $x := repeat 1000000 "x" }}{{ range 1000000 }}{{ $_ := regexMatch "(x+x+)+y" $x }}{{ end }}"#,
        STEPS,
    ),
    (
        "",
        r#"{{ $x := repeat 100000 "x" }}{{ regexReplaceAll "x" $x (repeat 10000 "y") }}"#,
        "",
    ),
    (
        "",
        r#"{{ $x := shuffle (repeat 100000 "ab") }}{{ range 1000000 }}{{ $_ := regexMatch "^(a|b)*a(a|b){100}$" $x }}{{ end }}"#,
        STEPS,
    ),
    (
        "",
        r#"{{ $x := shuffle (repeat 100000 "ab") }}{{ range 1000000 }}{{ $_ := regexMatch (print "^[ab]*a" (repeat 60 ".") "$") $x }}{{ end }}"#,
        STEPS,
    ),
    // keys and hashes
    ("", r#"{{ range 1000000 }}{{ $_ := bcrypt "x" }}{{ end }}"#, STEPS),
    (
        "",
        r#"{{ range 1000000 }}{{ $_ := derivePassword 1 "long" "p" "u" (toString .) }}{{ end }}"#,
        STEPS,
    ),
    (
        "",
        r#"{{ range 1000000 }}{{ $_ := genPrivateKey "ecdsa" }}{{ end }}"#,
        STEPS,
    ),
    (
        "",
        r#"{{ range 1000000 }}{{ $_ := genPrivateKey "rsa" }}{{ end }}"#,
        STEPS,
    ),
    (
        "",
        r#"{{ $c := genCA "a" 1 }}{{ range 1000000 }}{{ $_ := buildCustomCert (b64enc $c.Cert) (b64enc $c.Key) }}{{ end }}"#,
        "",
    ),
    (
        "",
        r#"{{ $c := genCA "a" 1 }}{{ range 1000000 }}{{ $_ := genCAWithKey "a" 1 $c.Key }}{{ end }}"#,
        "",
    ),
    (
        "",
        r#"{{ range 1000000 }}{{ $_ := htpasswd "u" "p" }}{{ end }}"#,
        STEPS,
    ),
    (
        "",
        r#"{{ $x := repeat 1000000 "x" }}{{ range 1000000 }}{{ $_ := encryptAES "p" $x }}{{ end }}"#,
        "",
    ),
    (
        "",
        r#"{{ $x := repeat 1000000 "x" }}{{ range 1000000 }}{{ $_ := sha512sum $x }}{{ end }}"#,
        STEPS,
    ),
    (
        "",
        r#"{{ $x := repeat 1000000 "x" }}{{ range 1000000 }}{{ $_ := adler32sum $x }}{{ end }}"#,
        STEPS,
    ),
    // lists and parts
    (
        "",
        r#"{{ $l := splitList "" (repeat 300000 "zyx") }}{{ range 1000000 }}{{ $_ := sortAlpha $l }}{{ end }}"#,
        "",
    ),
    ("", r#"{{ $l := until 100000 }}{{ uniq $l }}"#, STEPS),
    (
        "",
        r#"{{ $l := until 100000 }}{{ range $l }}{{ $_ := has "x" $l }}{{ end }}"#,
        STEPS,
    ),
    (
        "",
        r#"{{ $l := list }}{{ range 1000000 }}{{ $l = append $l . }}{{ end }}"#,
        "",
    ),
    (
        "",
        r#"{{ $x := repeat 1000000 "x" }}{{ range 1000000 }}{{ $_ := splitList "y" $x }}{{ end }}"#,
        "",
    ),
    (
        "",
        r#"{{ $x := repeat 1000000 "x" }}{{ range 1000000 }}{{ $_ := regexSplit "y" $x -1 }}{{ end }}"#,
        "",
    ),
    (
        "",
        r#"{{ $x := repeat 1000000 "xx" }}{{ range 1000000 }}{{ $_ := contains "y" $x }}{{ end }}"#,
        STEPS,
    ),
    (
        "",
        r#"{{ $x := repeat 1000000 "x" }}{{ range 1000000 }}{{ $_ := wrap 1 $x }}{{ end }}"#,
        "",
    ),
    (
        "",
        r#"{{ $x := repeat 1000000 "x" }}{{ range 1000000 }}{{ $_ := shuffle $x }}{{ end }}"#,
        "",
    ),
    (
        "",
        r#"{{ $x := repeat 1000000 "x" }}{{ range 1000000 }}{{ $_ := eq $x (print $x) }}{{ end }}"#,
        "",
    ),
    (
        "",
        r#"{{ $x := repeat 1000000 "x" }}{{ range 1000000 }}{{ $_ := hasPrefix $x (print $x) }}{{ end }}"#,
        "",
    ),
    (
        "",
        r#"{{ $x := print "a: &a " (repeat 100000 "x") "\nb: [" (repeat 50000 "*a,") "1]" }}{{ range 1000000 }}{{ $_ := fromYaml $x }}{{ end }}"#,
        "",
    ),
    (
        "",
        r#"{{ $l := list }}{{ range 20000 }}{{ $l = append $l (dict "k" .) }}{{ end }}{{ range 1000000 }}{{ $_ := toYaml $l }}{{ end }}"#,
        "",
    ),
    (
        "",
        r#"{{ $d := dict }}{{ range 20000 }}{{ $_ := set $d (toString .) . }}{{ end }}{{ range 1000000 }}{{ $_ := merge (dict) $d }}{{ $_ := keys $d }}{{ end }}"#,
        "",
    ),
    (
        "",
        r#"{{ $x := repeat 300000 "a=b&" }}{{ range 1000000 }}{{ $_ := urlParse (print "http://h/?" $x) }}{{ end }}"#,
        "",
    ),
    (
        "",
        r#"{{ $x := repeat 30000 "1" }}{{ range 1000000 }}{{ $_ := atoi $x }}{{ $_ := int $x }}{{ $_ := float64 $x }}{{ $_ := mulf $x $x }}{{ end }}"#,
        "",
    ),
];
