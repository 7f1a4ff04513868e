//! A source that is left and opened again at its position goes on as if it had not been left.

use std::io::Write as _;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

/// What a source gave: rows with what they do, and messages.
#[derive(Debug, Default, Clone, PartialEq)]
struct Given {
    rows: Vec<String>,
    errors: Vec<String>,
}

impl Given {
    fn add(&mut self, batch: SourceBatch) {
        let row = |row: usize| {
            let op = batch.ops.as_ref().map_or(Op::Upsert, |ops| ops[row]);
            format!("{op:?} {}", text::line(&batch.rows, row).join("|"))
        };
        self.rows.extend((0..batch.rows.num_rows()).map(row));
        self.errors.extend(batch.errors);
    }

    fn behind(&self, before: &Given) -> Given {
        Given { rows: self.rows[before.rows.len()..].to_vec(), errors: self.errors[before.errors.len()..].to_vec() }
    }
}

/// Where a source was after each read, and what it had given by then; and its end.
fn left_everywhere(source: &mut dyn Source) -> (Vec<(Given, Position)>, Given, Skipped) {
    let (mut given, mut left) = (Given::default(), vec![(Given::default(), source.position())]);
    loop {
        match source.read().unwrap() {
            Read::Batch(batch) => given.add(batch),
            Read::Idle => {}
            Read::End => {
                left.push((given.clone(), source.position()));
                return (left, given, source.skipped());
            }
        }
        left.push((given.clone(), source.position()));
    }
}

/// A position as it comes back from where it was kept.
fn kept(position: &Position) -> Position {
    let kept: Position = serde_json::from_str(&serde_json::to_string(position).unwrap()).unwrap();
    assert_eq!(kept, *position);
    kept
}

/// Reads a source to the end, and then from every place where it can be left, or from so many of them, to the end again. Gives
/// how many rows and messages there are.
fn can_be_left_anywhere(random: &mut StdRng, spec: &TableSpec, batches: impl IntoIterator<Item = usize>, places: usize) -> (usize, usize) {
    let (_, whole, skipped) = left_everywhere(&mut *open_source(spec, None).unwrap());
    for batch in batches {
        let (mut left, given, _) = left_everywhere(&mut *open_in_batches(spec, None, batch).unwrap());
        assert_eq!(given, whole, "batches of {batch}");
        while left.len() > places {
            left.swap_remove(random.random_range(0..left.len()));
        }
        for (before, position) in left {
            let again = if random.random() { batch } else { random.random_range(1..100) };
            let mut source = open_in_batches(spec, Some(&kept(&position)), again).unwrap();
            assert_eq!(source.position(), position, "before anything is read");
            let (_, rest, skipped_then) = left_everywhere(&mut *source);
            assert_eq!(rest, whole.behind(&before), "batches of {batch}, left at {position:?}");
            assert_eq!(skipped_then, skipped, "batches of {batch}, left at {position:?}");
        }
    }
    (whole.rows.len(), whole.errors.len() + skipped.rows as usize)
}

/// Lines, some of which are none.
fn any_lines(random: &mut StdRng, lines: &[&str], count: usize) -> String {
    let ends = if random.random() { ["\n", "\n"] } else { ["\n", "\r\n"] };
    let mut text = String::new();
    for _ in 0..random.random_range(0..count) {
        text.push_str(lines[random.random_range(0..lines.len())]);
        text.push_str(ends[random.random_range(0..2)]);
    }
    if random.random() {
        text.truncate(text.trim_end().len());
    }
    text
}

const COLUMNS: &[&str] = &["n BIGINT", "s VARCHAR"];

const CSV: &[&str] =
    &["1,a", "2,\"b\nb\"", "3,\"\"\"\r\n\"\"\"", "4,", "5,é", "x,c", "6", "7,d,e", "", "# 8,f", "9,\"g\"h", "10,\"i", "\u{feff}11,j"];

const JSON: &[&str] = &[
    r#"{"n":1,"s":"a"}"#,
    r#"{"s":"b\nb"}"#,
    r#"{"n":"3"}"#,
    r#"{"n":x}"#,
    "",
    "{",
    r#"{"op":"-D","n":4}"#,
    r#"{"op":"+U","n":5,"s":null}"#,
    r#"{"op":"?"}"#,
];

const DEBEZIUM: &[&str] = &[
    r#"{"before":null,"after":{"n":1,"s":"a"},"op":"c"}"#,
    r#"{"before":{"n":1,"s":"a"},"after":{"n":2,"s":"b"},"op":"u"}"#,
    r#"{"before":{"n":2,"s":"b"},"after":null,"op":"d"}"#,
    r#"{"before":{"n":3},"after":{"n":x},"op":"u"}"#,
    r#"{"op":"u","after":{"n":4}}"#,
    "",
];

/// Every option of a format, with lines for it and what its files may begin with.
const FORMATS: &[(&[&str], &[&str], &[&str])] = &[
    (&["format=csv"], CSV, &["", "\u{feff}"]),
    (&["format=csv", "csv.allow-comments=true"], CSV, &["", "\u{feff}", "# first\n"]),
    (
        &["format=csv", "csv.header=true", "csv.allow-comments=true"],
        CSV,
        &["s,n,more\n", "\u{feff}n,\"s\"\r\n", "# first\n\n\"a\"b\nn,\"line\nbreak\",s\n", "N,S\n"],
    ),
    (&["format=csv", "changelog=true"], &["+I,1,a", "-D,1,a", "?,2,b", "+U,x,c", "-U,3,\"\n\""], &["", "\u{feff}"]),
    (&["format=json"], JSON, &["", "\u{feff}"]),
    (&["format=json", "changelog=true"], JSON, &["", "\u{feff}"]),
    (&["format=debezium-json"], DEBEZIUM, &["", "\u{feff}"]),
];

#[test]
fn a_file_can_be_left_behind_any_batch() {
    let mut random = StdRng::seed_from_u64(1);
    for (options, lines, beginnings) in FORMATS {
        let (mut rows, mut wrong) = (0, 0);
        for round in 0..24 {
            let begins = beginnings[round % beginnings.len()];
            let folder = Folder::with("in", format!("{begins}{}", any_lines(&mut random, lines, 40)));
            let on_error = if round % 2 == 0 { "on_error=fail" } else { "on_error=skip" };
            let spec = spec(&folder, COLUMNS, &[&["connector=file", "path=in", on_error], *options].concat());
            let batches = [1, 2, 3, random.random_range(4..40)];
            let (more, worse) = can_be_left_anywhere(&mut random, &spec, batches, usize::MAX);
            (rows, wrong) = (rows + more, wrong + worse);
        }
        assert!(rows > 50 && wrong > 30, "{options:?}: {rows} rows and {wrong} that are none are too few to say much");
    }
}

#[test]
fn text_of_any_characters_can_be_left_behind_any_batch() {
    let mut random = StdRng::seed_from_u64(2);
    let characters: Vec<char> = "aé1,,\"\"\n\n\r#{}:\u{feff}".chars().collect();
    for round in 0..300 {
        let text: String = (0..random.random_range(0..60)).map(|_| characters[random.random_range(0..characters.len())]).collect();
        let folder = Folder::with("in", &text);
        let on_error = if round % 2 == 0 { "on_error=fail" } else { "on_error=skip" };
        let format = ["format=csv", "format=json"][usize::from(round % 10 == 0)];
        let columns = [&["s VARCHAR"][..], COLUMNS][round / 2 % 2];
        let spec = spec(&folder, columns, &["connector=file", "path=in", on_error, format]);
        can_be_left_anywhere(&mut random, &spec, 1..4, usize::MAX);
    }
}

#[test]
fn a_folder_can_be_left_within_any_file_and_between_any_two() {
    let mut random = StdRng::seed_from_u64(3);
    for round in 0..30 {
        let header = round % 3 == 0;
        let folder = Folder::new();
        for file in 0..random.random_range(0..5) {
            let begins = if header { ["s,n\n", "n,other,s\r\n"][random.random_range(0..2)] } else { "" };
            folder.write(&format!("{file}.csv"), format!("{begins}{}", any_lines(&mut random, CSV, 12)));
        }
        folder.write("a.txt", "no csv");
        let path = if folder.0.join("0.csv").exists() { "path=*.csv" } else { "path=." };
        let options = ["connector=file", "format=csv", path, if header { "csv.header=true" } else { "csv.header=false" }];
        let on_error = if round % 2 == 0 { "on_error=fail" } else { "on_error=skip" };
        if path == "path=." {
            std::fs::remove_file(folder.0.join("a.txt")).unwrap();
        }
        let spec = spec(&folder, COLUMNS, &[&options[..], &[on_error]].concat());
        can_be_left_anywhere(&mut random, &spec, [1, 2, 5], usize::MAX);
    }
}

#[test]
fn a_large_file_can_be_left_wherever_its_chunks_end() {
    let mut random = StdRng::seed_from_u64(4);
    let mut text = String::from("n,s\n");
    for n in 0..40_000 {
        match random.random_range(0..50) {
            0 => text.push_str("x,wrong\n"),
            1 => text.push_str(&format!("{n},\"{}\"\n", "long\n".repeat(random.random_range(0..200)))),
            _ => text.push_str(&format!("{n},{}\n", n * 7)),
        }
    }
    assert!(text.len() > 3 * (256 << 10), "{} bytes", text.len());
    let folder = Folder::with("in", text);
    for on_error in ["on_error=fail", "on_error=skip"] {
        let spec = spec(&folder, COLUMNS, &["connector=file", "path=in", "format=csv", "csv.header=true", on_error]);
        let batches = [random.random_range(1..20), random.random_range(100..1_000), 8192];
        can_be_left_anywhere(&mut random, &spec, batches, 3);
    }
}

#[test]
fn a_file_can_be_left_within_a_line_that_is_too_long() {
    let mut random = StdRng::seed_from_u64(5);
    let folder = Folder::with("in", format!("1,a\n2,{}\n3,b\n", "y".repeat(21 << 20)));
    let spec = spec(&folder, COLUMNS, &["connector=file", "path=in", "format=csv"]);
    let (left, ..) = left_everywhere(&mut *open_in_batches(&spec, None, 1).unwrap());
    let passing = |position: &Position| matches!(position, Position::Text(text) if text.passing);
    assert_eq!(left.iter().filter(|(_, position)| passing(position)).count(), 1, "the message is a batch of its own");
    assert_eq!(can_be_left_anywhere(&mut random, &spec, [1], usize::MAX), (2, 1));
}

#[test]
fn generated_rows_can_be_left_anywhere() {
    let mut random = StdRng::seed_from_u64(6);
    let folder = Folder::new();
    let columns = ["a BIGINT", "b VARCHAR", "c TIMESTAMP(3)", "d DOUBLE"];
    let sequence = ["fields.a.kind=sequence", "fields.a.start=5", "number-of-rows=60", "fields.b.null-rate=0.3", "seed=7"];
    for rate in ["rows-per-second=0", "rows-per-second=100000"] {
        let spec = spec(&folder, &columns, &[&["connector=datagen", rate], &sequence[..]].concat());
        assert_eq!(can_be_left_anywhere(&mut random, &spec, [1, 7, 100], usize::MAX), (60, 0));
    }
    let tables = [
        ("table=person", &["id BIGINT", "name VARCHAR", "date_time TIMESTAMP(3)"][..], 20),
        ("table=auction", &["id BIGINT", "seller BIGINT", "expires TIMESTAMP(3)"], 60),
        ("table=bid", &["auction BIGINT", "price BIGINT", "url VARCHAR", "date_time TIMESTAMP(3)"], 920),
    ];
    for (table, columns, rows) in tables {
        for seed in ["seed=0", "seed=9"] {
            let spec = spec(&folder, columns, &["connector=nexmark", "events=1000", table, seed]);
            assert_eq!(can_be_left_anywhere(&mut random, &spec, [1, 7, 100], 30), (rows, 0));
        }
    }
    let mut all = spec(&folder, &["event_type INT"], &["connector=nexmark", "events=200", "seed=3", "rate=100000"]);
    let row = |name: &str, field: &str| Field::new(name, DataType::Struct(vec![Field::new(field, DataType::Int64, true)].into()), true);
    all.schema = Arc::new(Schema::new(vec![row("person", "id"), row("auction", "seller"), row("bid", "price")]));
    assert_eq!(can_be_left_anywhere(&mut random, &all, [1, 7, 100], 30), (200, 0));
}

#[test]
fn generated_rows_of_billions_before_are_not_made_to_get_there() {
    let folder = Folder::new();
    let far = Position::Made(3_000_000_000);
    for options in [&["connector=datagen", "rows-per-second=0", "seed=7"][..], &["connector=nexmark", "table=bid"]] {
        let spec = spec(&folder, &["price BIGINT"], options);
        let mut source = open_in_batches(&spec, Some(&far), 10).unwrap();
        assert!(matches!(source.read().unwrap(), Read::Batch(batch) if batch.rows.num_rows() == 10));
        assert_eq!(source.position(), Position::Made(3_000_000_010));
    }
}

#[test]
fn a_rate_counts_from_when_a_source_is_gone_on_with() {
    let spec = spec(&Folder::new(), &["n BIGINT"], &["connector=datagen", "rows-per-second=1000"]);
    let mut source = open_source(&spec, Some(&Position::Made(1_000_000))).unwrap();
    let start = std::time::Instant::now();
    while !matches!(source.read().unwrap(), Read::Batch(_)) {}
    assert!(start.elapsed().as_secs() < 100, "the million rows before would have taken a thousand seconds");
}

#[test]
fn a_followed_file_is_gone_on_with_between_any_two_lines() {
    let folder = Folder::with("in", "n,s\n1,a\nx,b\n2,\"c");
    let spec = spec(&folder, COLUMNS, &["connector=file", "path=in", "format=csv", "csv.header=true", "on_error=skip", "follow=true"]);
    let append = |text: &str| {
        let mut file = std::fs::OpenOptions::new().append(true).open(folder.0.join("in")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    let until_idle = |source: &mut dyn Source| {
        let (mut given, mut left) = (Given::default(), vec![(Given::default(), source.position())]);
        loop {
            match source.read().unwrap() {
                Read::Batch(batch) => given.add(batch),
                Read::Idle => break,
                Read::End => panic!("what is followed has no end"),
            }
            left.push((given.clone(), source.position()));
        }
        left.push((given.clone(), source.position()));
        (left, given)
    };
    let mut source = open_in_batches(&spec, None, 1).unwrap();
    let (mut left, before) = until_idle(&mut *source);
    assert_eq!(before.rows, ["Upsert 1|a"]);
    let Position::Text(skipping) = source.position() else { panic!("text has a position in it") };
    assert_eq!((skipping.offset, skipping.place.line, skipping.skipped.rows), (12, 4, 1), "past the line that was skipped");
    append("\nd\"\n3,e\ny,f\n4,g");
    let (more, after) = until_idle(&mut *source);
    let whole = Given { rows: [before.rows.clone(), after.rows].concat(), errors: Vec::new() };
    assert_eq!(whole.rows, ["Upsert 1|a", "Upsert 2|c\nd", "Upsert 3|e"]);
    left.extend(more.into_iter().map(|(given, position)| (Given { rows: [before.rows.clone(), given.rows].concat(), ..given }, position)));
    for (before, position) in left {
        let mut again = open_in_batches(&spec, Some(&kept(&position)), 2).unwrap();
        assert_eq!(until_idle(&mut *again).1, whole.behind(&before), "left at {position:?}");
        assert_eq!(again.skipped(), source.skipped());
        assert_eq!(again.position(), source.position());
    }
}

/// A file of these contents read to its end, in batches of one row.
fn read_to_the_end(spec: &TableSpec) -> Position {
    let mut source = open_in_batches(spec, None, 1).unwrap();
    left_everywhere(&mut *source);
    source.position()
}

#[test]
fn what_was_appended_since_is_read_and_nothing_before_it() {
    let folder = Folder::with("b", "n,s\n1,a\n");
    let options = ["connector=file", "format=csv", "csv.header=true"];
    let file = spec(&folder, COLUMNS, &[&options[..], &["path=b"]].concat());
    let all = spec(&folder, COLUMNS, &[&options[..], &["path=."]].concat());
    let (at_file, at_all) = (read_to_the_end(&file), read_to_the_end(&all));
    folder.write("a", "n,s\n0,new file before\n");
    folder.write("b", "n,s\n1,a\n2,b\n");
    folder.write("c", "s,n\nc,3\n");
    let rest = |spec: &TableSpec, from: &Position| read_on(spec, open_source(spec, Some(from)).unwrap()).lines();
    assert_eq!(rest(&file, &at_file), ["2|b"]);
    assert_eq!(rest(&all, &at_all), ["2|b", "3|c"]);
    folder.write("b", "n,s\n1,a\n2,b\n4,behind what is read\n");
    let at_c = read_to_the_end(&all);
    assert_eq!(rest(&all, &at_c), [""; 0]);
}

#[test]
fn a_file_that_is_not_what_it_was_is_refused_by_table_name_and_byte() {
    let folder = Folder::with("b", "1,a\n2,b");
    let options = ["connector=file", "format=csv"];
    let file = spec(&folder, COLUMNS, &[&options[..], &["path=b"]].concat());
    let all = spec(&folder, COLUMNS, &[&options[..], &["path=."]].concat());
    let (file_left, all_left) = (read_to_the_end(&file), read_to_the_end(&all));
    let refusals = |why: &str| {
        for (spec, left) in [(&file, &file_left), (&all, &all_left)] {
            let error = unreadable_from(spec, Some(left));
            let where_left = "table 't': b was left at byte 7 and cannot be gone on with there: ";
            assert!(
                error.starts_with(where_left) && error.contains(why) && error.ends_with("; put it back as it was, or begin anew"),
                "{error}"
            );
        }
    };
    folder.write("b", "1,a\n2,b3\n");
    refusals("something was appended to its last line, which was read as complete");
    folder.write("b", "1,a\n");
    refusals("it has only 4 bytes");
    folder.write("b", "1,c\n2,b");
    refusals("other bytes come before that than those that were read");
    std::fs::rename(folder.0.join("b"), folder.0.join("c")).unwrap();
    let error = unreadable_from(&all, Some(&all_left));
    assert!(error.contains("it is gone"), "{error}");
    assert!(unreadable_from(&file, Some(&file_left)).contains("b was left at byte 7"));
    let generated = spec(&folder, &["n BIGINT"], &["connector=datagen"]);
    let expected = "table 't' cannot be read on in the file b, where reading stopped: its connector was another one then";
    assert_eq!(unreadable_from(&generated, Some(&file_left)), expected);
    let expected = "table 't' cannot be read on behind 5 generated rows, where reading stopped: its connector was another one then";
    assert_eq!(unreadable_from(&file, Some(&Position::Made(5))), expected);
}
