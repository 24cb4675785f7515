//! Images: files of 8x8 pixels, and their tokens.

use std::path::{Path, PathBuf};

use model_support::{ModelError, read_json};
use serde::Deserialize;

use crate::{PATCH, TOKENS};

const SIDE: usize = 8;
const PATCH_SIDE: usize = 2;
const LARGEST: u8 = 16;

/// One image: 8x8 pixels of 0 to 16, row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pixels([u8; SIDE * SIDE]);

impl Pixels {
    /// 64 pixels of 0 to 16; `None` for anything else.
    pub fn new(pixels: &[u8]) -> Option<Self> {
        let pixels = <[u8; SIDE * SIDE]>::try_from(pixels).ok()?;
        pixels.iter().all(|p| *p <= LARGEST).then_some(Pixels(pixels))
    }

    /// Its tokens: patches in row-major order, each with its pixels in row-major order, scaled to 0 to 1.
    ///
    /// ```
    /// let mut pixels = [0; 64];
    /// pixels[2] = 16; // the first pixel of the second patch
    /// pixels[8] = 4; // the third pixel of the first patch
    /// let tokens = digits_plugin::Pixels::new(&pixels).unwrap().tokens();
    /// assert_eq!(tokens[..8], [0.0, 0.0, 0.25, 0.0, 1.0, 0.0, 0.0, 0.0]);
    /// ```
    pub fn tokens(&self) -> [f32; TOKENS * PATCH] {
        std::array::from_fn(|i| {
            let (token, value) = (i / PATCH, i % PATCH);
            let across = SIDE / PATCH_SIDE;
            let row = token / across * PATCH_SIDE + value / PATCH_SIDE;
            let column = token % across * PATCH_SIDE + value % PATCH_SIDE;
            f32::from(self.0[row * SIDE + column]) / f32::from(LARGEST)
        })
    }
}

/// A file of images.
#[derive(Clone, Debug, PartialEq)]
pub struct Images {
    /// The images, in the file's order.
    pub images: Vec<Pixels>,
    /// What they show; empty where the file does not say.
    pub labels: Vec<usize>,
}

/// A file that holds no images.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// A file that cannot be read, or is not the JSON it must be.
    #[error(transparent)]
    File(#[from] ModelError),
    /// An image of another size, or with a pixel out of range.
    #[error("{file}: image {image} is {got}, must be 64 integers of 0 to 16", file = file.display())]
    Image {
        /// The file.
        file: PathBuf,
        /// Its position in the file, from 0.
        image: usize,
        /// What is wrong with it.
        got: String,
    },
    /// Labels for another number of images.
    #[error("{file}: {labels} label(s) for {images} image(s), must be one each or none", file = file.display())]
    Labels {
        /// The file.
        file: PathBuf,
        /// How many labels.
        labels: usize,
        /// How many images.
        images: usize,
    },
}

#[derive(Deserialize)]
struct Json {
    images: Vec<Vec<i64>>,
    #[serde(default)]
    labels: Vec<usize>,
}

impl Images {
    /// Reads a JSON file: `{"images": [[64 integers], ..], "labels": [..]}`.
    pub fn read(file: &Path) -> Result<Self, ImageError> {
        let Json { images, labels } = read_json(file)?;
        if !labels.is_empty() && labels.len() != images.len() {
            let (labels, images) = (labels.len(), images.len());
            return Err(ImageError::Labels { file: file.into(), labels, images });
        }
        let pixels = |(image, row): (usize, &Vec<i64>)| {
            let bytes: Vec<u8> = row.iter().map(|p| u8::try_from(*p).unwrap_or(u8::MAX)).collect();
            Pixels::new(&bytes).ok_or_else(|| {
                let outside = row.iter().find(|p| !(0..=i64::from(LARGEST)).contains(*p));
                let got = match outside {
                    Some(p) if row.len() == SIDE * SIDE => format!("one with a pixel of {p}"),
                    _ => format!("{} integer(s)", row.len()),
                };
                ImageError::Image { file: file.into(), image, got }
            })
        };
        let images = images.iter().enumerate().map(pixels).collect::<Result<_, _>>()?;
        Ok(Images { images, labels })
    }
}
