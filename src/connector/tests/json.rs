//! Reading json and debezium-json files.

use super::*;

fn json(columns: &[&str], content: impl AsRef<[u8]>, options: &[&str]) -> Everything {
    let folder = Folder::with("in.json", content);
    read(&spec(&folder, columns, &[&["connector=file", "path=in.json", "format=json"], options].concat()))
}

fn debezium(columns: &[&str], key: &[usize], content: &str, options: &[&str]) -> Everything {
    let folder = Folder::with("in.json", content);
    let mut spec = spec(&folder, columns, &[&["connector=file", "path=in.json", "format=debezium-json"], options].concat());
    spec.primary_key = key.to_vec();
    read(&spec)
}

#[test]
fn values_of_every_type_are_read() {
    let columns = [
        "a BOOLEAN",
        "c BIGINT UNSIGNED",
        "d FLOAT",
        "e DOUBLE",
        "f DECIMAL(38, 10)",
        "g VARBINARY",
        "h DATE",
        "i TIME(6)",
        "j TIMESTAMP(3)",
        "k TIMESTAMP_LTZ(6)",
        "l ARRAY<INT>",
        "m ROW<a INT, b VARCHAR>",
    ];
    let line = r#"{"a":true,"c":18446744073709551615,"d":0.1,"e":"NaN","f":1234567890123456789012345678.0123456789,"g":"AP8=","h":"2026-01-31","i":"12:00:00.5","j":"2026-01-01T00:00:01.5","k":"2026-01-01T02:00:00+02:00","l":[1,null],"m":{"b":"x","z":[]}}"#;
    let all = json(&columns, line, &[]);
    assert_eq!(all.errors, [""; 0]);
    let expected = "true|18446744073709551615|0.1|NaN|1234567890123456789012345678.0123456789|x'00ff'|2026-01-31|12:00:00.500|2026-01-01 00:00:01.500|2026-01-01 00:00:00|[1, NULL]|{a: NULL, b: x}";
    assert_eq!(all.lines(), [expected]);
}

#[test]
fn fields_that_are_no_column_are_ignored_and_absent_ones_are_null() {
    let content = "{\"s\":\"a\",\"n\":1,\"z\":{\"n\":[2]}}\r\n\n{}\n{\"n\":null}\n{\"s\":\"\\u00e9\\n\"}";
    assert_eq!(json(&["n BIGINT", "s VARCHAR"], content, &[]).lines(), ["1|a", "NULL|NULL", "NULL|NULL", "NULL|é\n"]);
}

#[test]
fn a_varchar_takes_any_value_as_its_text_and_numbers_may_stand_in_quotes() {
    let content = "{\"s\":1.50,\"n\":\"7\"}\n{\"s\":true}\n{\"s\":[1, {\"a\":2}]}\n";
    assert_eq!(json(&["n BIGINT", "s VARCHAR"], content, &[]).lines(), ["7|1.50", "NULL|true", "NULL|[1, {\"a\":2}]"]);
}

#[test]
fn a_line_that_cannot_be_read_is_named_by_file_line_and_place_and_the_others_are_read() {
    let content = b"{\"id\":1}\n{\"id\":2,\"n\":\"x\"}\n{\"id\":3,\"n\":1.5}\n{\"id\":4,}\n{\"id\":5\n[6]\n{\"n\":7}\n{\"id\":8,\"id\":8}\n\xff\n{\"id\":9,\"r\":{\"a\":{}}}\n{\"id\":10} x\n{\"id\":11,\"n\":11}";
    let all = json(&["id BIGINT NOT NULL", "n BIGINT", "r ROW<a INT, b VARCHAR>"], content, &[]);
    assert_eq!(all.lines(), ["1|NULL|NULL", "11|11|NULL"]);
    let expected = [
        "in.json, line 2, field n: 'x' is not a BIGINT",
        "in.json, line 3, field n: '1.5' is not a BIGINT",
        "in.json, line 4, column 9: expected another element after ','",
        "in.json, line 5, column 8: expected ',' or '}'",
        "in.json, line 6, column 1: expected an object",
        "in.json, line 7, field id: NULL in a NOT NULL column",
        "in.json, line 8, field id: given twice",
        "in.json, line 9, column 1: not UTF-8",
        "in.json, line 10, field r: field a: '{}' is not an INT",
        "in.json, line 11, column 11: expected nothing more on the line",
    ];
    assert_eq!(all.errors, expected);
}

#[test]
fn op_says_what_a_row_does() {
    let content = "{\"op\":\"+I\",\"n\":1}\n{\"n\":1,\"op\":\"-U\"}\n{\"n\":2}\n{\"n\":3,\"op\":\"x\"}\n";
    let all = json(&["n BIGINT"], content, &["changelog=true"]);
    assert_eq!(all.changes(), ["+ 1", "- 1"]);
    let expected =
        ["in.json, line 3, field op: there must be one, of +I, -U, +U, -D", "in.json, line 4, field op: 'x' is not one of +I, -U, +U, -D"];
    assert_eq!(all.errors, expected);
}

#[test]
fn debezium_events_insert_update_and_delete() {
    let content = r#"{"before":null,"after":{"id":1,"s":"a"},"op":"c","ts_ms":5,"source":{"db":"x"}}
{"op":"r","after":{"id":2,"s":"b"}}
{"before":{"id":1,"s":"a"},"after":{"id":1,"s":"c"},"op":"u"}
{"before":{"id":2,"s":"b"},"after":null,"op":"d"}"#;
    assert_eq!(debezium(&["id BIGINT", "s VARCHAR"], &[], content, &[]).changes(), ["+ 1|a", "+ 2|b", "- 1|a", "+ 1|c", "- 2|b"]);
    let enveloped: String = content.lines().map(|line| format!("{{\"schema\":{{}},\"payload\":{line}}}\n")).collect();
    let all = debezium(&["id BIGINT", "s VARCHAR"], &[], &enveloped, &["debezium-json.schema-include=true"]);
    assert_eq!(all.changes(), ["+ 1|a", "+ 2|b", "- 1|a", "+ 1|c", "- 2|b"]);
}

#[test]
fn a_primary_key_is_all_that_a_deletion_need_give() {
    let content = r#"{"after":{"id":1,"s":"b"},"op":"u"}
{"before":{"id":1},"op":"d"}
{"before":{"s":"a"},"op":"d"}"#;
    let columns = ["id BIGINT NOT NULL", "s VARCHAR NOT NULL"];
    let keyed = debezium(&columns, &[0], content, &[]);
    assert_eq!(keyed.changes(), ["+ 1|b", "- 1|"]);
    assert_eq!(keyed.errors, ["in.json, line 3, before: field id: NULL in a NOT NULL column"]);
    let unkeyed = debezium(&columns, &[], content, &[]);
    assert_eq!(unkeyed.changes(), [""; 0]);
    let expected = [
        "in.json, line 1, field before: there must be a row in an event of op 'u'",
        "in.json, line 2, before: field s: NULL in a NOT NULL column",
        "in.json, line 3, before: field id: NULL in a NOT NULL column",
    ];
    assert_eq!(unkeyed.errors, expected);
}

#[test]
fn an_event_of_which_one_side_cannot_be_read_does_nothing() {
    let content = r#"{"before":{"n":1},"after":{"n":"x"},"op":"u"}
{"before":{"n":1},"after":{"n":2},"op":"t"}
{"before":{"n":1},"after":{"n":2}}
{"before":{"n":3},"op":"d"}"#;
    let all = debezium(&["n BIGINT"], &[], content, &[]);
    assert_eq!(all.changes(), ["- 3"]);
    let expected = [
        "in.json, line 1, after: field n: 'x' is not a BIGINT",
        "in.json, line 2, field op: 't' is not one of c, r, u, d",
        "in.json, line 3, field op: there must be one, of c, r, u, d",
    ];
    assert_eq!(all.errors, expected);
}
