//! What `cuModuleLoadData` gets: PTX text, or the stand-in's own image that names a library of compiled
//! kernels.
use super::kernels::Parameter;

/// First line of the stand-in's own image. A real driver refuses it: it is no PTX.
pub(crate) const HEADER: &str = "// stand-in driver kernel image 1";

pub(crate) enum Image {
    /// Kernels and their parameters, from PTX. Their host code must have been registered.
    Ptx(Vec<(String, Vec<Parameter>)>),
    /// The path of a compiled library, which knows its kernels and their parameters.
    Library(String),
}

pub(crate) fn parse(text: &str) -> Option<Image> {
    if let Some(rest) = text.strip_prefix(HEADER) {
        let path = rest.lines().find_map(|line| line.strip_prefix("library "))?;
        return Some(Image::Library(path.to_owned()));
    }
    if !text.contains(".version") || !text.contains(".target") {
        return None;
    }
    entries(text).map(Image::Ptx)
}

/// Every `.entry` of a PTX text.
fn entries(text: &str) -> Option<Vec<(String, Vec<Parameter>)>> {
    let text = without_comments(text);
    text.split(".entry").skip(1).map(|part| entry(part.trim_start())).collect()
}

fn entry(part: &str) -> Option<(String, Vec<Parameter>)> {
    let end = part.find(|c: char| matches!(c, '(' | '{' | ';') || c.is_whitespace())?;
    let (name, rest) = (&part[..end], part[end..].trim_start());
    let mut parameters = Vec::new();
    if let Some(list) = rest.strip_prefix('(') {
        let list = &list[..list.find(')')?];
        let mut offset = 0usize;
        for declaration in list.split(',').filter(|text| text.contains(".param")) {
            let (size, align) = size_and_align(declaration)?;
            offset = offset.next_multiple_of(align);
            parameters.push(Parameter { offset, size, pointer: false });
            offset += size;
        }
    }
    Some((name.to_owned(), parameters))
}

/// Of a declaration such as `.param .u64 .ptr .global .align 1 name` or `.param .align 8 .b8 name[24]`.
fn size_and_align(declaration: &str) -> Option<(usize, usize)> {
    let words: Vec<&str> = declaration.split_whitespace().collect();
    let width = words.iter().find_map(|word| {
        let bits = word.strip_prefix('.')?.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        matches!(bits, "8" | "16" | "32" | "64").then(|| bits.parse::<usize>().ok()).flatten()
    })? / 8;
    let count = match declaration.split_once('[') {
        Some((_, rest)) => rest.split(']').next()?.trim().parse().ok()?,
        None => 1,
    };
    // The alignment of what a pointer points to is not the parameter's.
    let own = words.iter().position(|word| *word == ".align").filter(|_| !words.contains(&".ptr"));
    let align = own.and_then(|at| words.get(at + 1)?.parse().ok()).unwrap_or(width);
    Some((width * count, align.max(1)))
}

fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("/*").into_iter().chain(rest.find("//")).min() {
        out.push_str(&rest[..at]);
        let (stop, skip) = if rest[at..].starts_with("/*") { ("*/", 2) } else { ("\n", 0) };
        rest = rest[at..].find(stop).map_or("", |end| &rest[at + end + skip..]);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
//
// .entry not_this(.param .u32 a)
.version 8.0
.target sm_80
.address_size 64

	// .globl	scale
.visible .entry scale(
	.param .u64 .ptr .global .align 1 scale_param_0,
	.param .f32 scale_param_1,
	.param .align 8 .b8 scale_param_2[24],
	.param .u8 scale_param_3
)
.maxntid 256, 1, 1
{ ret; }
.visible .entry bare()
{ ret; }
";

    #[test]
    fn parameters_of_an_entry_have_the_offsets_of_the_c_layout() {
        let Some(Image::Ptx(kernels)) = parse(PTX) else { panic!("PTX") };
        let [(scale, parameters), (bare, none)] = &kernels[..] else { panic!("two kernels: {kernels:?}") };
        assert_eq!((scale.as_str(), bare.as_str()), ("scale", "bare"));
        let layout: Vec<_> = parameters.iter().map(|it| (it.offset, it.size)).collect();
        assert_eq!(layout, [(0, 8), (8, 4), (16, 24), (40, 1)]);
        assert!(none.is_empty());
    }

    #[test]
    fn other_text_is_no_image() {
        assert!(parse("hello").is_none());
        assert!(
            matches!(parse(&format!("{HEADER}\nlibrary /a b.so\n")), Some(Image::Library(path)) if path == "/a b.so")
        );
        assert!(parse(HEADER).is_none());
    }
}
