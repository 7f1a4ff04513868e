//! What CREATE TABLE refuses, and what it says.

use super::*;

#[test]
fn every_connector_says_what_it_can_be_used_for() {
    let folder = Folder::new();
    let kind = |options: &[&str]| check(&spec(&folder, &["n BIGINT"], options)).unwrap();
    let file = kind(&["connector=file", "path=no/such/file", "format=csv"]);
    assert_eq!(file, Kind { source: true, sink: true, changelog_table: false, bounded: true });
    assert!(kind(&["connector=stdin", "format=json"]).bounded);
    assert!(!kind(&["connector=datagen"]).bounded);
    assert!(kind(&["connector=datagen", "number-of-rows=1"]).bounded);
    let print = kind(&["connector=print"]);
    assert_eq!(print, Kind { source: false, sink: true, changelog_table: false, bounded: false });
    assert_eq!(kind(&["connector=changelog"]), Kind { changelog_table: true, ..print });
}

#[test]
fn a_misspelling_is_answered_with_the_names_there_are() {
    let folder = Folder::new();
    let error = |options: &[&str]| refusal(&spec(&folder, &["n BIGINT"], options));
    assert!(error(&["connector=flie"]).starts_with("there is no connector 'flie'; did you mean 'file'? (there is file, "));
    assert!(error(&["connector=file", "path=x", "format=cvs"]).starts_with("there is no format 'cvs'; did you mean 'csv'?"));
    assert!(error(&["connector=file", "pth=x", "format=csv"]).starts_with("there is no option 'pth'; did you mean 'path'?"));
    assert!(error(&["connector=file", "path=x", "format=json", "csv.header=true"]).starts_with("there is no option 'csv.header'"));
    assert_eq!(error(&["connector=datagen", "fields.m.min=1"]), "there is no column 'm'; did you mean 'n'? (there is n)");
    assert!(error(&["connector=datagen", "fields.n.mni=1"]).starts_with("there is no option 'fields.n.mni'"));
}

#[test]
fn what_is_missing_given_twice_or_wrong_is_named() {
    let folder = Folder::new();
    let error = |options: &[&str]| refusal(&spec(&folder, &["op BIGINT"], options));
    assert!(error(&["path=x"]).contains("no 'connector'"));
    assert!(error(&["connector=file", "path=x"]).contains("needs the option 'format' (there is csv, json, debezium-json)"));
    assert!(error(&["connector=file", "format=csv"]).contains("needs the option 'path'"));
    assert!(error(&["connector=file", "path=x", "path=y", "format=csv"]).contains("'path' is given twice"));
    let file = |option: &str| error(&["connector=file", "path=x", "format=csv", option]);
    assert_eq!(file("follow=maybe"), "table 't': option 'follow' must be 'true' or 'false', not 'maybe'");
    assert_eq!(file("on_error=ignore"), "table 't': option 'on_error' must be fail or skip, not 'ignore'");
    assert!(file("csv.field-delimiter=ab").contains("must be one ASCII character"));
    assert!(file("csv.field-delimiter=\"").contains("csv.quote-character"));
    assert!(file("changelog=true").contains("the name op is taken"));
}

#[test]
fn a_type_that_no_format_has_is_refused_with_its_column() {
    let folder = Folder::new();
    let mut spec = spec(&folder, &["n BIGINT"], &["connector=file", "path=x", "format=csv"]);
    spec.schema = Arc::new(Schema::new(vec![Field::new("wide", DataType::Decimal256(50, 2), true)]));
    assert_eq!(refusal(&spec), "not supported: the type DECIMAL(50, 2) of column 'wide' in a format");
}

#[test]
fn the_reference_has_every_option_of_every_connector_and_format() {
    let reference = reference();
    let options = CONNECTORS.iter().flat_map(|c| c.options).chain(FORMATS.iter().flat_map(|f| f.options));
    for option in options {
        assert!(reference.contains(&format!("| `{}` |", option.name)), "{}", option.name);
    }
}
