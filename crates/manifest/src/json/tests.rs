use super::{DEPTH_MAX, decode, to_go_string};

/// The results of Go 1.26 and `sigs.k8s.io/json`: the value written back, repeated keys, or the error.
#[test]
fn reads_and_writes_as_go() {
    #[track_caller]
    fn check(input: impl AsRef<[u8]>, expected: &str) {
        let got = match decode(input.as_ref()) {
            Ok(decoded) => {
                let mut text = to_go_string(&decoded.value);
                for path in decoded.duplicates {
                    text.push_str(" dup ");
                    text.push_str(&path);
                }
                text
            }
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(got, expected, "{}", String::from_utf8_lossy(input.as_ref()));
    }
    check(
        "{bad",
        "error: invalid character 'b' looking for beginning of object key string",
    );
    check("", "error: unexpected end of JSON input");
    check("  ", "error: unexpected end of JSON input");
    check("x", "error: invalid character 'x' looking for beginning of value");
    check("{", "error: unexpected end of JSON input");
    check("{\"a\"", "error: unexpected end of JSON input");
    check("{\"a\" 1}", "error: invalid character '1' after object key");
    check(
        "{\"a\":1 2}",
        "error: invalid character '2' after object key:value pair",
    );
    check(
        "{\"a\":1,}",
        "error: invalid character '}' looking for beginning of object key string",
    );
    check(
        "[1,]",
        "error: invalid character ']' looking for beginning of value",
    );
    check("[1 2]", "error: invalid character '2' after array element");
    check("{} x", "error: invalid character 'x' after top-level value");
    check("1 2", "error: invalid character '2' after top-level value");
    check(
        "tru",
        "error: invalid character ' ' in literal true (expecting 'e')",
    );
    check(
        "trux",
        "error: invalid character 'x' in literal true (expecting 'e')",
    );
    check(
        "fals ",
        "error: invalid character ' ' in literal false (expecting 'e')",
    );
    check(
        "nil",
        "error: invalid character 'i' in literal null (expecting 'u')",
    );
    check("-", "error: invalid character ' ' in numeric literal");
    check("-x", "error: invalid character 'x' in numeric literal");
    check("01", "error: invalid character '1' after top-level value");
    check(
        "1.x",
        "error: invalid character 'x' after decimal point in numeric literal",
    );
    check(
        "1ex",
        "error: invalid character 'x' in exponent of numeric literal",
    );
    check("\"a\nb\"", "error: invalid character '\\n' in string literal");
    check("\"\\x\"", "error: invalid character 'x' in string escape code");
    check(
        "\"\\u12g4\"",
        "error: invalid character 'g' in \\u hexadecimal character escape",
    );
    check(
        "\u{feff}{}",
        "error: invalid character 'ï' looking for beginning of value",
    );
    check(
        b"\x00",
        "error: invalid character '\\x00' looking for beginning of value",
    );
    check(
        b"\x80",
        "error: invalid character '\\u0080' looking for beginning of value",
    );
    check(
        "'",
        "error: invalid character '\\'' looking for beginning of value",
    );
    check(
        "[\\",
        "error: invalid character '\\\\' looking for beginning of value",
    );
    check(
        "1e400",
        "error: json: cannot unmarshal number 1e400 into Go value of type float64",
    );

    check(r#"{"a":1,"a":2}"#, r#"{"a":2} dup a"#);
    check(
        r#"{"data":{"a":"1","a":"2","a":"3"},"l":[{"x":1,"x":2}],"l":[[{"y":1,"y":2}]]}"#,
        r#"{"data":{"a":"3"},"l":[[{"y":2}]]} dup data.a dup l[0].x dup l dup l[0][0].y"#,
    );
    check(
        r#"{"a":{"b":1,"b":{"c":1,"c":2}}}"#,
        r#"{"a":{"b":{"c":2}}} dup a.b dup a.b.c"#,
    );

    check(
        "[1, -0, 1.0, 1.5, 1e3, 9223372036854775807, 9223372036854775808]",
        "[1,0,1,1.5,1000,9223372036854775807,9223372036854776000]",
    );
    // equally near to .62 and .63
    check("[200000000000000.61]", "[200000000000000.62]");
    check(
        "[18446744073709551615, 1e20, 1e21, 1.5e300, 0.000001, 0.0000001, 1.25e-9, -0.0]",
        "[18446744073709552000,100000000000000000000,1e+21,1.5e+300,0.000001,1e-7,1.25e-9,-0]",
    );
    check(
        r#""<a>&\u2028\u0001\b\f\/\"\\é""#,
        r#""\u003ca\u003e\u0026\u2028\u0001\b\f/\"\\é""#,
    );
    check(
        r#"["\ud83d\ude00","\ud83d","\ud83dx","\ud83d\u0041","\ude00"]"#,
        "[\"😀\",\"\u{fffd}\",\"\u{fffd}x\",\"\u{fffd}A\",\"\u{fffd}\"]",
    );
    check(
        b"\"a\xff\xfeb\xe2\x82\"",
        "\"a\u{fffd}\u{fffd}b\u{fffd}\u{fffd}\"",
    );
    check(" { \"b\" : [ ] , \"a\" : { } } \n", r#"{"a":{},"b":[]}"#);
}

#[test]
fn nesting_has_a_limit() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(decode(deep(DEPTH_MAX).as_bytes()).is_ok());
    let error = decode(deep(DEPTH_MAX + 1).as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "exceeded max depth");
}

#[test]
fn integers_stay_integers() {
    let value = decode(b"[1,1.0,1e0,-5]").unwrap().value;
    let kinds: Vec<bool> = value
        .as_array()
        .unwrap()
        .iter()
        .map(serde_json::Value::is_i64)
        .collect();
    assert_eq!(kinds, [true, false, false, true]);
}
