//! Reads the response of `GET /metrics`.

/// The value of a metric without labels.
pub fn value(text: &str, name: &str) -> Option<f64> {
    let mut samples = text.lines().filter_map(|line| line.split_once(' '));
    samples.find(|(sample, _)| *sample == name).and_then(|(_, value)| value.parse().ok())
}

/// `Ok` once every acknowledged claim is recorded, else the number of unrecorded ones.
pub fn is_recorded(text: &str) -> Result<(), f64> {
    match value(text, "tidegate_unrecorded_claims").expect("the metric is published") {
        0.0 => Ok(()),
        unrecorded => Err(unrecorded),
    }
}
