//! What sinks write.

use arrow::array::{Int64Array, StringArray};

use super::*;

use RowKind::{Delete, Insert, UpdateAfter, UpdateBefore};

const COLUMNS: &[&str] = &["word VARCHAR", "n BIGINT"];

fn counts(spec: &TableSpec, kinds: &[RowKind], rows: &[(Option<&str>, i64)]) -> Changes {
    let words: StringArray = rows.iter().map(|(word, _)| *word).collect();
    let numbers: Int64Array = rows.iter().map(|(_, number)| Some(*number)).collect();
    changes(spec, kinds, vec![Arc::new(words), Arc::new(numbers)])
}

/// What a file sink with these options writes for: +I[a, 1], -U[a, 1], +U[a, 2], -D[NULL, 3].
fn written(options: &[&str]) -> (Result<()>, String) {
    let folder = Folder::with("out", "what was there before");
    let spec = spec(&folder, COLUMNS, &[&["connector=file", "path=out"], options].concat());
    let mut sink = open_sink(&spec, nowhere(), None).unwrap();
    let first = sink.write(&counts(&spec, &[Insert], &[(Some("a"), 1)]));
    let second = sink.write(&counts(&spec, &[UpdateBefore, UpdateAfter, Delete], &[(Some("a"), 1), (Some("a"), 2), (None, 3)]));
    sink.flush().unwrap();
    (first.and(second), folder.read("out"))
}

#[test]
fn print_writes_a_change_a_line_in_flinks_form() {
    let folder = Folder::new();
    let (kinds, rows) = ([Insert, UpdateBefore, UpdateAfter, Delete], [(Some("a"), 1), (Some("a"), 1), (None, 2), (Some(""), 2)]);
    for (options, prefix) in [(&["connector=print"][..], ""), (&["connector=print", "print-identifier=id"], "id> ")] {
        let spec = spec(&folder, COLUMNS, options);
        let out = Arc::new(Mutex::new(Vec::new()));
        let mut sink = open_sink(&spec, out.clone(), None).unwrap();
        sink.write(&counts(&spec, &kinds, &rows)).unwrap();
        sink.flush().unwrap();
        let expected: String = ["+I[a, 1]", "-U[a, 1]", "+U[NULL, 2]", "-D[, 2]"].map(|line| format!("{prefix}{line}\n")).concat();
        assert_eq!(String::from_utf8(out.lock().unwrap().clone()).unwrap(), expected);
    }
}

#[test]
fn csv_and_json_only_append_and_say_what_to_use_instead() {
    let (result, text) = written(&["format=csv", "csv.header=true"]);
    assert_eq!(text, "word,n\na,1\n", "nothing of a refused step is written");
    let expected = "table 't' cannot take the change -U: csv only appends; use 'format' = 'debezium-json' or 'changelog' = 'true'";
    assert_eq!(result.unwrap_err().to_string(), expected);
    let (result, text) = written(&["format=json"]);
    assert_eq!(text, "{\"word\":\"a\",\"n\":1}\n");
    assert!(result.is_err());
}

#[test]
fn a_changelog_says_in_front_what_each_row_does() {
    let (result, text) = written(&["format=csv", "csv.header=true", "changelog=true"]);
    assert_eq!((result, text.as_str()), (Ok(()), "op,word,n\n+I,a,1\n-U,a,1\n+U,a,2\n-D,,3\n"));
    let (result, text) = written(&["format=json", "changelog=true"]);
    result.unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[2..], ["{\"op\":\"+U\",\"word\":\"a\",\"n\":2}", "{\"op\":\"-D\",\"word\":null,\"n\":3}"]);
}

#[test]
fn a_pair_of_an_update_is_one_debezium_event() {
    let (result, text) = written(&["format=debezium-json"]);
    result.unwrap();
    let expected = [
        r#"{"before":null,"after":{"word":"a","n":1},"op":"c","ts_ms":1000}"#,
        r#"{"before":{"word":"a","n":1},"after":{"word":"a","n":2},"op":"u","ts_ms":1000}"#,
        r#"{"before":{"word":null,"n":3},"after":null,"op":"d","ts_ms":1000}"#,
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_sink_that_is_none_says_why() {
    let folder = Folder::new();
    let error = |options: &[&str]| open_sink(&spec(&folder, COLUMNS, options), nowhere(), None).err().unwrap().to_string();
    assert!(error(&["connector=changelog"]).contains("the engine keeps in memory"));
    assert!(error(&["connector=datagen"]).contains("only gives rows"));
    assert!(error(&["connector=file", "format=csv", "path=no/such/folder"]).contains("no/such/folder cannot be written"));
    assert!(unreadable(&spec(&folder, COLUMNS, &["connector=print"])).contains("only takes changes"));
    let blackhole = spec(&folder, COLUMNS, &["connector=blackhole"]);
    open_sink(&blackhole, nowhere(), None).unwrap().write(&counts(&blackhole, &[Insert], &[(None, 1)])).unwrap();
}

#[test]
fn a_file_has_one_writer_at_a_time_by_whatever_name() {
    let folder = Folder::with("out", "what was there before");
    std::fs::create_dir(folder.0.join("sub")).unwrap();
    let named = |path: &str| spec(&folder, COLUMNS, &["connector=file", "format=csv", path]);
    let mut first = open_sink(&named("path=out"), nowhere(), None).unwrap();
    first.write(&counts(&named("path=out"), &[Insert], &[(Some("a"), 1)])).unwrap();
    first.flush().unwrap();
    for path in ["path=out", "path=./out", "path=sub/../out"] {
        let error = open_sink(&named(path), nowhere(), None).err().unwrap().to_string();
        assert!(error.contains("out is being written by another job already"), "{error}");
    }
    assert_eq!(folder.read("out"), "a,1\n", "who is refused has not truncated it");
    drop(first);
    assert!(open_sink(&named("path=out"), nowhere(), None).is_ok());
    assert_eq!(folder.read("out"), "");
}

#[test]
fn a_sink_overwrites_what_is_read_from_its_file_its_folder_or_a_pattern_of_its_name() {
    let folder = Folder::with("in.csv", "a,1\n");
    let base = folder.0.display();
    let named = |path: &str| spec(&folder, COLUMNS, &["connector=file", "format=csv", &format!("path={path}")]);
    let absolute = format!("{base}/in.csv");
    for source in ["in.csv", "./in.csv", ".", "*.csv", "i*.csv", &absolute] {
        assert_eq!(overwrites(&named("in.csv"), &named(source)), Ok(true), "{source}");
    }
    for source in ["other.csv", "o*.csv", "nosuch/*.csv", "nosuch/in.csv"] {
        assert_eq!(overwrites(&named("in.csv"), &named(source)), Ok(false), "{source}");
    }
    assert_eq!(overwrites(&named("new.csv"), &named("*.csv")), Ok(true), "a file that is not there yet");
    assert_eq!(overwrites(&named("_new.csv"), &named(".")), Ok(false), "a folder's hidden files are not read");
    let printed = spec(&folder, COLUMNS, &["connector=print"]);
    assert_eq!(overwrites(&printed, &named("in.csv")), Ok(false));
}
