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

/// Formats, with the kinds of change that they take.
const COMMITTED: &[(&[&str], &[RowKind])] = &[
    (&["format=csv"], &[Insert]),
    (&["format=csv", "csv.header=true"], &[Insert]),
    (&["format=csv", "csv.header=true", "changelog=true"], &[Insert, Delete, UpdateBefore, UpdateAfter]),
    (&["format=json"], &[Insert]),
    (&["format=json", "changelog=true"], &[Delete, UpdateBefore, UpdateAfter]),
    (&["format=debezium-json"], &[UpdateBefore, UpdateAfter, Insert]),
];

#[test]
fn a_file_that_is_gone_on_with_at_a_committed_length_is_that_of_an_uninterrupted_run() {
    for (options, kinds) in COMMITTED {
        let folder = Folder::new();
        let spec = spec(&folder, COLUMNS, &[&["connector=file", "path=out"], *options].concat());
        let step = |n: usize| {
            let word = ["a", "b,c", "\"", "line\nbreak", "é"][n % 5];
            counts(&spec, kinds, &vec![(Some(word), n as i64); kinds.len()])
        };
        let write = |sink: &mut dyn Sink, steps: std::ops::Range<usize>| steps.for_each(|n| sink.write(&step(n)).unwrap());
        write(&mut *open_sink(&spec, nowhere(), None).unwrap(), 0..6);
        let whole = folder.read("out");
        for committed in 0..6 {
            for crash in committed..6 {
                let mut sink = open_sink(&spec, nowhere(), None).unwrap();
                write(&mut *sink, 0..committed);
                let at = sink.commit().unwrap();
                assert_eq!(at, Some(folder.read("out").len() as u64), "what is committed is there");
                write(&mut *sink, committed..crash);
                drop(sink);
                let mut again = open_sink(&spec, nowhere(), at).unwrap();
                write(&mut *again, committed..crash);
                let later = again.commit().unwrap();
                drop(again);
                // Left at once, and gone on with where it is.
                drop(open_sink(&spec, nowhere(), later).unwrap());
                write(&mut *open_sink(&spec, nowhere(), later).unwrap(), crash..6);
                assert_eq!(folder.read("out"), whole, "{options:?}: committed after {committed} steps, left after {crash}");
            }
        }
    }
}

#[test]
fn what_comes_behind_a_committed_length_is_dropped_before_anything_is_written() {
    let folder = Folder::with("out", "a,1\nb,2\nhalf a li");
    let spec = spec(&folder, COLUMNS, &["connector=file", "path=out", "format=csv"]);
    let mut sink = open_sink(&spec, nowhere(), Some(8)).unwrap();
    assert_eq!(folder.read("out"), "a,1\nb,2\n");
    assert_eq!(sink.commit(), Ok(Some(8)));
}

#[test]
fn a_file_that_is_gone_or_shorter_than_its_committed_length_is_refused_and_left_as_it_is() {
    let folder = Folder::with("out", "a,1\n");
    let spec = spec(&folder, COLUMNS, &["connector=file", "path=out", "format=csv"]);
    let error = |at| open_sink(&spec, nowhere(), Some(at)).err().unwrap().to_string();
    let refusal = error(5);
    let expected = "out was left at byte 5 and cannot be gone on with there: it has only 4 bytes; put it back as it was, or begin anew";
    assert!(refusal.starts_with("table 't': ") && refusal.ends_with(expected), "{refusal}");
    assert_eq!(folder.read("out"), "a,1\n");
    assert!(open_sink(&spec, nowhere(), Some(4)).is_ok(), "who was refused does not hold it");
    std::fs::remove_file(folder.0.join("out")).unwrap();
    assert!(error(4).contains("out was left at byte 4"));
    assert!(!folder.0.join("out").exists(), "it is not made anew");
}

#[test]
fn a_sink_that_keeps_nothing_has_no_length_to_go_on_at() {
    let folder = Folder::new();
    let device = ["connector=file", "path=/dev/null", "format=csv"];
    for options in [&["connector=print"][..], &["connector=blackhole"], &device] {
        let spec = spec(&folder, COLUMNS, options);
        let mut sink = open_sink(&spec, nowhere(), None).unwrap();
        sink.write(&counts(&spec, &[Insert], &[(None, 1)])).unwrap();
        assert_eq!(sink.commit(), Ok(None), "{options:?}");
    }
}
