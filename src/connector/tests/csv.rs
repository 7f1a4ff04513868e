//! Reading csv files.

use super::*;

const FILE: &[&str] = &["connector=file", "path=in.csv", "format=csv"];

fn with_options(columns: &[&str], content: impl AsRef<[u8]>, options: &[&str]) -> Everything {
    let folder = Folder::with("in.csv", content);
    read(&spec(&folder, columns, &[FILE, options].concat()))
}

fn csv(columns: &[&str], content: impl AsRef<[u8]>) -> Everything {
    with_options(columns, content, &[])
}

#[test]
fn values_of_every_type_are_read() {
    let columns = [
        "a BOOLEAN",
        "b TINYINT",
        "c BIGINT UNSIGNED",
        "d FLOAT",
        "e DOUBLE",
        "f DECIMAL(10, 2)",
        "g VARBINARY",
        "h DATE",
        "i TIME(3)",
        "j TIMESTAMP(3)",
        "k TIMESTAMP_LTZ(6)",
        "l ARRAY<INT>",
        "m ROW<a INT, b VARCHAR>",
    ];
    let line = "true,-128, 18446744073709551615 ,0.1,-1e300,1.005,00ff,2026-01-31,12:00:00.5,2026-01-01 00:00:01.5,2026-01-01T02:00:00+02:00,\"[1, null]\",\"{\"\"b\"\": \"\"x\"\"}\"\n";
    let all = csv(&columns, line);
    assert_eq!(all.errors, [""; 0]);
    let expected = "true|-128|18446744073709551615|0.1|-1e300|1.01|x'00ff'|2026-01-31|12:00:00.500|2026-01-01 00:00:01.500|2026-01-01 00:00:00|[1, NULL]|{a: NULL, b: x}";
    assert_eq!(all.lines(), [expected]);
}

#[test]
fn line_ends_a_byte_order_mark_blank_lines_and_a_missing_last_line_end_change_nothing() {
    for content in ["1,a\n2,b\n", "1,a\r\n2,b\r\n", "\u{feff}1,a\n\n2,b", "1,a\r\n\r\n2,b\r\n\r\n", "\"1\",\"a\"\n2,b\r"] {
        let all = csv(&["n BIGINT", "s VARCHAR"], content);
        assert_eq!((all.lines(), all.errors), (vec!["1|a".to_owned(), "2|b".into()], vec![]), "{content:?}");
    }
}

#[test]
fn nothing_is_null_and_quoted_nothing_is_the_empty_string() {
    assert_eq!(csv(&["n BIGINT", "s VARCHAR"], ",\n1,\"\"\n").lines(), ["NULL|NULL", "1|"]);
    assert_eq!(csv(&["s VARCHAR"], "a\n\n\"\"\n").lines(), ["a", "NULL", ""]);
    let null = with_options(&["n BIGINT", "s VARCHAR"], "N/A,N/A\n1,\n2,\"N/A\"\n", &["csv.null-literal=N/A"]);
    assert_eq!(null.lines(), ["NULL|NULL", "1|", "2|N/A"]);
}

#[test]
fn quotes_keep_delimiters_line_breaks_and_quotes() {
    let all = csv(&["s VARCHAR", "n BIGINT"], "\"a,b\",1\n\"a\r\nb\",2\n\"say \"\"hi\"\"\",3\nit\"s,4\nx,y\n");
    assert_eq!(all.lines(), ["a,b|1", "a\r\nb|2", "say \"hi\"|3", "it\"s|4"]);
    assert_eq!(all.errors, ["in.csv, line 6, column 2 (n): 'y' is not a BIGINT"], "the line break in quotes is a line of the file");
}

#[test]
fn a_row_that_cannot_be_read_is_named_by_file_line_and_column_and_the_others_are_read() {
    let all =
        csv(&["id BIGINT NOT NULL", "s VARCHAR", "n BIGINT"], "1,a,1\n2,b,x1\n3,c\n4,d,4,4\n,e,5\n6,f,\n7,g,9223372036854775808\n8,h,8\n");
    assert_eq!(all.lines(), ["1|a|1", "6|f|NULL", "8|h|8"]);
    let mut errors = all.errors;
    errors.sort();
    let expected = [
        "in.csv, line 2, column 3 (n): 'x1' is not a BIGINT",
        "in.csv, line 3: 2 fields where there must be 3",
        "in.csv, line 4: 4 fields where there must be 3",
        "in.csv, line 5, column 1 (id): NULL in a NOT NULL column",
        "in.csv, line 7, column 3 (n): '9223372036854775808' is not a BIGINT",
    ];
    assert_eq!(errors, expected);
}

#[test]
fn a_row_with_two_faults_is_one_error() {
    let all = csv(&["a BIGINT", "b BIGINT"], "x,y\n1,2\n");
    assert_eq!(all.errors, ["in.csv, line 1, column 1 (a): 'x' is not a BIGINT"]);
    assert_eq!(all.lines(), ["1|2"]);
}

#[test]
fn skip_counts_all_and_keeps_the_first_five_messages() {
    let content: String = (1..=20).map(|n| if n % 2 == 0 { format!("{n}\n") } else { "x\n".into() }).collect();
    let all = with_options(&["n BIGINT"], content, &["on_error=skip"]);
    assert_eq!(all.errors, [""; 0]);
    assert_eq!(all.rows.num_rows(), 10);
    assert_eq!(all.skipped.rows, 10);
    let lines: Vec<String> = [1, 3, 5, 7, 9].map(|line| format!("in.csv, line {line}, column 1 (n): 'x' is not a BIGINT")).into();
    assert_eq!(all.skipped.first, lines);
}

#[test]
fn an_open_quote_costs_its_line_and_no_other() {
    let all = csv(&["n BIGINT", "s VARCHAR"], "1,a\n2,\"b\n3,c\n4,d");
    assert_eq!(all.errors, ["in.csv, line 2, column 2: a quote that opens here is never closed"]);
    assert_eq!(all.lines(), ["1|a", "3|c", "4|d"]);
    let all = csv(&["n BIGINT", "s VARCHAR"], "1,\"a\"b\n2,c\n");
    assert_eq!(all.errors, ["in.csv, line 1, column 2: after a closing quote comes ',' or the end of the line"]);
    assert_eq!(all.lines(), ["2|c"]);
}

#[test]
fn bytes_that_are_not_utf_8_are_an_error_of_their_row() {
    let all = csv(&["n BIGINT", "s VARCHAR"], b"1,a\n2,\xff\xfe\n3,c\n");
    assert_eq!(all.errors.len(), 1);
    assert!(all.errors[0].starts_with("in.csv, line 2, column 2 (s): ") && all.errors[0].ends_with("is not UTF-8"), "{}", all.errors[0]);
    assert_eq!(all.lines(), ["1|a", "3|c"]);
}

#[test]
fn files_without_rows_have_no_rows() {
    for (content, options) in
        [("", &[][..]), ("\n\n", &[]), ("\u{feff}", &[]), ("n,s\n", &["csv.header=true"]), ("n,s", &["csv.header=true"])]
    {
        let all = with_options(&["n BIGINT", "s VARCHAR"], content, options);
        assert_eq!((all.rows.num_rows(), all.errors.len()), (0, 0), "{content:?}");
    }
}

#[test]
fn a_header_says_which_field_is_which_column() {
    let all = with_options(&["n BIGINT", "s VARCHAR"], "S,other,n\na,-,1\nb,-,x\n", &["csv.header=true"]);
    assert_eq!(all.lines(), ["1|a"]);
    assert_eq!(all.errors, ["in.csv, line 3, column 3 (n): 'x' is not a BIGINT"]);
    let folder = Folder::with("in.csv", "a,b\n1,2\n");
    let mut source = open_source(&spec(&folder, &["n BIGINT"], &[FILE, &["csv.header=true"]].concat()), None).unwrap();
    assert_eq!(source.read().unwrap_err().to_string(), "in.csv has no field 'n' in its header (there is a, b)");
}

#[test]
fn other_dialects_are_read() {
    let options = ["csv.field-delimiter=\\t", "csv.quote-character='", "csv.allow-comments=true"];
    assert_eq!(with_options(&["s VARCHAR", "n BIGINT"], "# s n\n'a\tb'\t1\n\"\t2\n", &options).lines(), ["a\tb|1", "\"|2"]);
}

#[test]
fn op_in_front_says_what_a_row_does() {
    let all = with_options(&["n BIGINT"], "+I,1\n-U,1\n+U,2\n-D,2\n?,3\n", &["changelog=true"]);
    assert_eq!(all.changes(), ["+ 1", "- 1", "+ 2", "- 2"]);
    assert_eq!(all.errors, ["in.csv, line 5, column 1 (op): '?' is not one of +I, -U, +U, -D"]);
}

#[test]
fn fields_of_a_megabyte_are_read_and_lines_without_end_are_refused() {
    let long = "x".repeat(1 << 20);
    let all = csv(&["n BIGINT", "s VARCHAR"], format!("1,{long}\n2,\"{long}\"\n{long},3\n"));
    assert_eq!(all.rows.column(1).to_data().buffers()[1].len(), 2 << 20);
    assert_eq!(all.errors.len(), 1);
    assert!(all.errors[0].len() < 200, "the message does not repeat the field");
    let endless = "y".repeat(21 << 20);
    let all = csv(&["n BIGINT", "s VARCHAR"], format!("1,a\n2,{endless}\n3,c\n4,\"{endless}\n5,e\n"));
    assert!(all.lines() == ["1|a", "3|c", "5|e"], "a failure does not print the long line");
    let expected = ["in.csv, line 2: a line of more than 16 MB", "in.csv, line 4: a line of more than 16 MB"];
    assert_eq!(all.errors, expected);
}

#[test]
fn large_files_come_in_batches_and_in_order() {
    let content: String = (0..50_000).map(|n| format!("{n},{}\n", n * 7)).collect();
    let all = csv(&["a BIGINT", "b BIGINT"], content);
    assert!(all.batches >= 50_000 / 8192, "{} batches", all.batches);
    assert!(all.lines().iter().enumerate().all(|(n, line)| *line == format!("{n}|{}", n * 7)));
}

#[test]
fn errors_fill_a_batch_as_rows_do() {
    let all = csv(&["a BIGINT", "b BIGINT"], "x\n".repeat(50_000));
    assert_eq!(all.errors.len(), 50_000);
    assert_eq!(all.errors[49_999], "in.csv, line 50000: 1 field where there must be 2");
    assert!(all.batches >= 50_000 / 8192, "{} batches", all.batches);
}

#[test]
fn a_folder_is_read_in_the_order_of_names_and_a_star_chooses() {
    let folder = Folder::with("b.csv", "2\n3");
    folder.write("a.csv", "1\n");
    folder.write("c.txt", "4\nx\n");
    folder.write("_hidden", "x\n");
    std::fs::create_dir(folder.0.join("inner")).unwrap();
    let path = |path: &str| read(&spec(&folder, &["n BIGINT"], &["connector=filesystem", "format=csv", &format!("path={path}")]));
    assert_eq!(path(".").lines(), ["1", "2", "3", "4"]);
    assert_eq!(path("*.csv").lines(), ["1", "2", "3"]);
    assert!(path(".").errors[0].contains("c.txt, line 2, column 1 (n)"));
}

#[test]
fn a_missing_file_is_named() {
    let folder = Folder::new();
    for path in ["missing.csv", "missing/in.csv", "*.csv"] {
        let error = unreadable(&spec(&folder, &["n BIGINT"], &["connector=file", "format=csv", &format!("path={path}")]));
        assert!(error.contains(path) && error.contains("cannot be read"), "{error}");
    }
}

#[test]
fn a_followed_file_gives_what_is_appended_once_its_line_is_complete() {
    let folder = Folder::with("in.csv", "1\n2");
    let spec = spec(&folder, &["n BIGINT"], &[FILE, &["follow=true"]].concat());
    assert!(!check(&spec).unwrap().bounded);
    let mut source = open_source(&spec, None).unwrap();
    assert!(!source.is_bounded());
    let mut next = || match source.read() {
        Ok(Read::Batch(batch)) => (0..batch.rows.num_rows()).map(|row| text::line(&batch.rows, row).join("|")).collect::<Vec<_>>(),
        Ok(Read::Idle) => vec!["idle".into()],
        Ok(Read::End) => vec!["end".into()],
        Err(error) => vec![error.to_string()],
    };
    assert_eq!(next(), ["1"]);
    assert_eq!(next(), ["idle"]);
    let mut file = std::fs::OpenOptions::new().append(true).open(folder.0.join("in.csv")).unwrap();
    file.write_all(b"0\n3\n").unwrap();
    assert_eq!(next(), ["20", "3"]);
    file.set_len(1).unwrap();
    assert!(next()[0].contains("became shorter"));
}
