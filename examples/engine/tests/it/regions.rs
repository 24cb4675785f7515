//! `engine regions`.

use serde_json::json;

use crate::program;

#[test]
fn lists_name_node_kind_inputs_and_place() {
    let output = program::json(["regions", "--json"]);
    let regions = output["regions"].as_array().unwrap();
    let names: Vec<(&str, &str)> =
        regions.iter().map(|r| (r["node"].as_str().unwrap(), r["name"].as_str().unwrap())).collect();
    for expected in [("digits", "classify"), ("llama", "qkv"), ("llama", "mlp"), ("llama", "forward_batched")]
    {
        assert!(names.contains(&expected), "{expected:?} in {names:?}");
    }
    let classify = &regions[names.iter().position(|n| *n == ("digits", "classify")).unwrap()];
    assert_eq!(classify["kind"], "batched region");
    assert_eq!(
        classify["inputs"],
        json!([{"name": "patches", "element": "f32", "shape": "[tokens, 4]", "side": "host", "padding": "zero"}])
    );
    assert_eq!(classify["crate"], "digits-plugin");
    let (file, line) = (classify["file"].as_str().unwrap(), classify["line"].as_u64().unwrap() as usize);
    let source =
        std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file));
    assert!(source.unwrap().lines().nth(line - 1).unwrap().contains("struct Classify"));
}

#[test]
fn the_table_has_a_row_for_each() {
    let out = program::engine(["regions"]);
    let table = String::from_utf8(out.stdout).unwrap();
    for word in ["classify", "qkv", "forward_batched", "pad zero", "batch_sizes = [1, 2, 4, 8, 16, 32]"] {
        assert!(table.contains(word), "{word} in\n{table}");
    }
}
