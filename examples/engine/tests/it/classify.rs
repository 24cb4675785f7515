//! `engine classify`.

use crate::program;

#[test]
fn predictions_are_the_reference_at_any_batch_size() {
    let images = program::model("digits", "digits").join("test_images.json");
    let reference = program::reference("digits", "digits");
    for batch_size in ["1", "5", "16", "31", "32", "100"] {
        let images = images.to_str().unwrap();
        let output = program::json(["classify", "--json", "--images", images, "--batch-size", batch_size]);
        assert_eq!(output["predictions"], reference["predictions"], "batch size {batch_size}");
    }
}
