//! Pixels of a picture: resvg draws its SVG with a font that is part of the program, so that the same panels give the same
//! bytes on every machine.

use crate::{Error, Result};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

/// Pixels per point: letters stay sharp on fine screens.
const PIXELS: f32 = 2.0;
/// Larger pictures are refused: their pixels would take gigabytes.
const MOST_PIXELS: f64 = 1e8;

const FONTS: [&[u8]; 2] = [include_bytes!("font/DejaVuSans.ttf"), include_bytes!("font/DejaVuSans-Bold.ttf")];
const FAMILY: &str = "DejaVu Sans";
/// The font's letters are wide: at this share of their size they take the room that the layout leaves for them.
pub(super) const LETTER_SHARE: f64 = 0.9;

/// The number of pixels across and down, unless there would be too many.
pub(super) fn check_size((width, height): (f64, f64)) -> Result<(u32, u32)> {
    let pixels = f64::from(PIXELS);
    let (width, height) = ((pixels * width).ceil(), (pixels * height).ceil());
    if width >= 1.0 && height >= 1.0 && width * height <= MOST_PIXELS {
        return Ok((width as u32, height as u32));
    }
    Err(Error::invalid(format!(
        "the picture would have {width} × {height} pixels, expected at least one and at most {MOST_PIXELS:.0e}: write .svg"
    )))
}

/// The bytes of a PNG file that shows `svg`, which has the given size in points.
pub(super) fn png(svg: &str, size: (f64, f64)) -> Result<Vec<u8>> {
    let failed = |problem: &dyn std::fmt::Display| {
        Error::invalid(format!("the picture could not be drawn: {problem}"))
    };
    let (width, height) = check_size(size)?;
    let mut options = Options { font_family: FAMILY.into(), ..Options::default() };
    let fonts = options.fontdb_mut();
    FONTS.iter().for_each(|font| fonts.load_font_data(font.to_vec()));
    fonts.set_sans_serif_family(FAMILY);
    let tree = Tree::from_str(svg, &options).map_err(|error| failed(&error))?;
    let mut pixels = Pixmap::new(width, height).ok_or_else(|| failed(&"there is no room for its pixels"))?;
    resvg::render(&tree, Transform::from_scale(PIXELS, PIXELS), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| failed(&error))
}
