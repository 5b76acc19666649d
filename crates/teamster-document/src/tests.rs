use proptest::prelude::*;

use super::*;

fn text(node: &DocumentNode, key: &str) -> (usize, String) {
    let node = node.get(key).unwrap();
    match &node.value {
        DocumentValue::Text(text) => (node.line, text.clone()),
        other => panic!("{other:?}"),
    }
}

/// Returns the tree without its lines.
fn bare(node: &DocumentNode) -> serde_json::Value {
    use serde_json::Value as Json;
    match &node.value {
        DocumentValue::Null => Json::Null,
        DocumentValue::Bool(answer) => Json::Bool(*answer),
        DocumentValue::Number(digits) => Json::String(format!("#{digits}")),
        DocumentValue::Text(text) => Json::String(text.clone()),
        DocumentValue::List(list) => list.iter().map(bare).collect(),
        DocumentValue::Map(entries) => Json::Object(
            entries
                .iter()
                .map(|(key, node)| (key.name.clone(), bare(node)))
                .collect(),
        ),
    }
}

#[test]
fn the_three_formats_say_the_same_and_know_their_lines() {
    let toml = "a = 'x'\n\n[b]\nc = [1, 'two']\nd = true\n";
    let yaml = "a: x\n\nb:\n  c: [1, 'two']\n  d: true\n";
    let json = "{\"a\": \"x\",\n\n \"b\": {\n  \"c\": [1, \"two\"],\n  \"d\": true}}";
    let trees = [
        (DocumentFormat::Toml, toml),
        (DocumentFormat::Yaml, yaml),
        (DocumentFormat::Json, json),
    ]
    .map(|(format, text)| parse(format, text).unwrap());
    for tree in &trees {
        assert_eq!(bare(tree), bare(&trees[0]));
        assert_eq!(text(tree, "a"), (1, "x".to_owned()));
        assert_eq!(tree.get("b").unwrap().get("c").unwrap().line, 4);
        assert_eq!(tree.get("b").unwrap().get("d").unwrap().line, 5);
    }
}

#[test]
fn what_could_mean_two_things_is_refused_where_it_stands() {
    for (format, text, line, said) in [
        (DocumentFormat::Toml, "a = 1\na = 2", 2, "not valid TOML"),
        (DocumentFormat::Toml, "\n\na = ", 3, "not valid TOML"),
        (DocumentFormat::Yaml, "a: 1\na: 2", 2, "`a` is given twice"),
        (DocumentFormat::Yaml, "a: &x 1\nb: *x", 1, "an anchor"),
        (DocumentFormat::Yaml, "a: !x 1", 1, "a tag"),
        (
            DocumentFormat::Yaml,
            "a: 1\n---\nb: 1",
            2,
            "a second document",
        ),
        (DocumentFormat::Yaml, "a:\n\t- b", 2, "not valid YAML"),
        (DocumentFormat::Yaml, "[a]: 1", 1, "a key must be a text"),
        (
            DocumentFormat::Json,
            "{\"a\":1,\n\"a\":2}",
            2,
            "`a` is given twice",
        ),
        (DocumentFormat::Json, "{\n\"a\":\n}", 3, "not valid JSON"),
    ] {
        let fault = parse(format, text).unwrap_err();
        assert!(fault.message.contains(said), "{text:?}: {fault:?}");
        assert_eq!(fault.line, line, "{text:?}: {fault:?}");
    }
    for format in [
        DocumentFormat::Yaml,
        DocumentFormat::Json,
        DocumentFormat::Toml,
    ] {
        let deep = format!("{}{}", "[".repeat(60), "]".repeat(60));
        let text = match format {
            DocumentFormat::Toml => format!("a = {deep}"),
            _ => deep,
        };
        let said = parse(format, &text).unwrap_err().message;
        assert!(
            said.contains("nested") || said.contains("recursion"),
            "{said}"
        );
    }
}

#[test]
fn words_of_yaml_mean_what_its_present_version_says() {
    let tree = parse(
        DocumentFormat::Yaml,
        "[yes, 'true', 1.2.3, 1e3, ~, '', 007, 0x1]",
    )
    .unwrap();
    assert_eq!(
        bare(&tree).to_string(),
        r##"["yes","true","1.2.3","#1e3",null,"","#007","0x1"]"##
    );
}

#[test]
fn a_file_is_taken_by_its_name_and_else_by_how_it_begins() {
    for (file, text, format) in [
        ("p.toml", "", DocumentFormat::Toml),
        ("p.yml", "{", DocumentFormat::Yaml),
        ("-", " {\"a\":1}", DocumentFormat::Json),
        ("-", "# plan\n[[tasks]]", DocumentFormat::Toml),
        ("-", "verify = ['a: b']", DocumentFormat::Toml),
        ("-", "tasks:\n  - id: a", DocumentFormat::Yaml),
        ("-", "---\ntasks: []", DocumentFormat::Yaml),
    ] {
        assert_eq!(
            DocumentFormat::of(Path::new(file), text),
            format,
            "{text:?}"
        );
    }
    let faults = parse_file(Path::new("p.toml"), b"a = 1\n\xff").unwrap_err();
    assert_eq!(faults.to_string(), "p.toml:2: this is not UTF-8 text");
    let tree = parse_file(Path::new("p.toml"), "\u{feff}a = 'x'".as_bytes()).unwrap();
    assert_eq!(text(&tree, "a").1, "x");
}

/// Generates trees that JSON can represent, without duplicate keys.
fn trees() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value as Json;
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any::<i32>().prop_map(Json::from),
        ".{0,12}".prop_map(Json::String),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Json::Array),
            proptest::collection::btree_map(".{0,6}", inner, 0..5)
                .prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

/// Returns the same tree with numbers as this reader keeps them.
fn marked(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match value {
        Json::Number(number) => Json::String(format!("#{number}")),
        Json::Array(list) => list.iter().map(marked).collect(),
        Json::Object(map) => Json::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), marked(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn json_is_read_as_serde_reads_it(value in trees(), pretty in any::<bool>()) {
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        let tree = parse(DocumentFormat::Json, &text).unwrap();
        prop_assert_eq!(bare(&tree), marked(&value));
        prop_assert!(last_line(&tree) <= text.lines().count().max(1));
    }

    #[test]
    fn nothing_that_anybody_writes_makes_a_reader_panic(text in "[ \\-:,\\[\\]{}\"'#&*!|>a-c0-9=\\n\\t\\\\가]{0,80}") {
        for format in [DocumentFormat::Toml, DocumentFormat::Yaml, DocumentFormat::Json] {
            if let Err(fault) = parse(format, &text) {
                prop_assert!(fault.line >= 1 && fault.line <= text.split('\n').count() + 1, "{:?}", fault);
            }
        }
    }
}

fn last_line(node: &DocumentNode) -> usize {
    let inner = match &node.value {
        DocumentValue::List(list) => list.iter().map(last_line).max(),
        DocumentValue::Map(entries) => entries.iter().map(|(_, node)| last_line(node)).max(),
        _ => None,
    };
    inner.unwrap_or(0).max(node.line)
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Garden {
    name: Lined<Word>,
    #[serde(default)]
    beds: Lined<Vec<Lined<Bed>>>,
    owner: Option<TextOr<Owner>>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename = "bed", deny_unknown_fields)]
struct Bed {
    id: Lined<Word>,
    plants: Lined<Vec<Lined<Word>>>,
    rows: Option<u8>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Owner {
    city: String,
}

fn read_garden(text: &str) -> (Option<Garden>, String) {
    let mut faults = Vec::new();
    let root = parse(DocumentFormat::Yaml, text).unwrap();
    let garden = root.read("the garden", &mut faults);
    let shown = Faults::new(Path::new("g.yaml"), faults).to_string();
    (garden, shown)
}

#[test]
fn everything_wrong_in_a_typed_document_is_told_at_once() {
    let (garden, shown) = read_garden(
        "name: ''\nbeds:\n- id: a\n  plants: roses\n- plants: [x, [], 7]\n  row: 1\n- 3\n- id: 4\n  rows: 300\nyear: 1\n",
    );
    let garden = garden.unwrap();
    insta::assert_snapshot!(shown, @r#"
    g.yaml:1: the garden has an empty `name`
    g.yaml:4: bed "a" has a `plants` that is a text, not a list
    g.yaml:5: bed 2 of the list has a list in `plants`, not a text
    g.yaml:6: bed 2 of the list has the unknown key `row`; known are id, plants, rows
    g.yaml:7: bed 3 of the list is a number, not a table of keys and values
    g.yaml:9: bed "4" has a `rows` that is 300, not a whole number from 0 to 255
    g.yaml:10: the garden has the unknown key `year`; known are name, beds, owner
    "#);
    let read: Vec<usize> = garden.beds.items().map(|(line, _)| line).collect();
    assert_eq!(read, [3, 5], "those that could be read");
    let (_, second) = garden.beds.items().nth(1).unwrap();
    assert_eq!(second.plants.clone().texts(), ["x", "7"]);
    assert!(second.id.is_missing() && second.rows.is_none());
    assert!(!garden.name.is_missing() && garden.name.value.is_none());
}

#[test]
fn a_text_stands_for_a_table_and_a_missing_key_ends_its_struct_only() {
    let (garden, shown) = read_garden("name: g\nowner: ann\n");
    assert_eq!(shown, "");
    assert_eq!(garden.unwrap().owner, Some(TextOr::Text("ann".to_owned())));
    let (garden, _) = read_garden("name: g\nowner: { city: b }\nbeds: null\n");
    let garden = garden.unwrap();
    let city = "b".to_owned();
    assert_eq!(garden.owner, Some(TextOr::Table(Owner { city })));
    assert!(garden.beds.is_missing());
    let (garden, shown) = read_garden("name: g\nowner: {}\n");
    assert!(garden.is_none());
    assert_eq!(shown, "g.yaml:2: `owner` has no `city`");
    let (_, shown) = read_garden("name: g\nowner: 3\n");
    insta::assert_snapshot!(shown, @r"
    g.yaml:2: the garden has a `owner` that is a number, not a text or a table of keys and values
    ");
}

#[derive(Debug, Default, PartialEq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct When {
    day: Option<u32>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(rename = "do", rename_all = "kebab-case", deny_unknown_fields)]
enum Chore {
    Water { liters: f64 },
    LockUp,
}

#[test]
fn a_variant_is_told_by_its_key_beside_the_keys_of_others() {
    let chores = |text: &str| {
        let mut faults = Vec::new();
        let root = parse(DocumentFormat::Toml, text).unwrap();
        let read: Option<Vec<(When, Chore)>> = root
            .get("chore")
            .unwrap()
            .read("the list of chores", &mut faults);
        (read, Faults::new(Path::new("c.toml"), faults).to_string())
    };
    let (read, shown) =
        chores("[[chore]]\nday = 3\ndo = 'water'\nliters = 1.5\n[[chore]]\ndo = 'lock-up'\n");
    assert_eq!(shown, "");
    let day = |day| When { day };
    assert_eq!(
        read.unwrap(),
        [
            (day(Some(3)), Chore::Water { liters: 1.5 }),
            (day(None), Chore::LockUp)
        ]
    );
    let mut said = String::new();
    for text in [
        "[[chore]]\nday = 3\ndo = 'water'",
        "[[chore]]\nday = 3\ndo = 'paint'",
        "[[chore]]\nday = 3",
        "[[chore]]\ndo = 'lock-up'\nliters = 3\nday = -1",
        "[[chore]]\ndo = 'lock-up'\nliters = 3",
    ] {
        said.push_str(&chores(text).1);
        said.push('\n');
    }
    insta::assert_snapshot!(said, @r#"
    c.toml:1: `water` has no `liters`
    c.toml:3: item 1 of `items` has a bad `do`: there is no "paint"; there are water, lock-up
    c.toml:1: item 1 of `items` has no `do`
    c.toml:4: when 1 of the list has a `day` that is -1, not a whole number from 0 to 4294967295
    c.toml:3: item 1 of `items` has the unknown key `liters`; known are day, do
    "#);
}
