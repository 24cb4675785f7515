//! From a `.cu` source to C++ for the host: the few places where CUDA's grammar is not C++'s, and the
//! kernels' names.

/// A source that the host's compiler takes, line for line the original with lines before and behind.
pub(super) struct Translated {
    pub(super) text: String,
    /// Names of the kernels, in the source's order.
    pub(super) kernels: Vec<String>,
}

pub(super) fn translate(source: &str, name: &str) -> Result<Translated, String> {
    let code = blank_comments_and_strings(source);
    let kernels = kernels(&code, source)?;
    if kernels.is_empty() {
        return Err(format!("{name}: no `extern \"C\" __global__ void` kernel in it"));
    }
    let body = dynamic_arrays(source, &code);
    let table: String = kernels.iter().map(|kernel| format!("CUDA_HOST_KERNEL({kernel})\n")).collect();
    let text =
        format!("#include \"cuda_host.h\"\n#line 1 {name:?}\n{body}\n#line 1 \"kernel table\"\n{table}");
    Ok(Translated { text, kernels })
}

/// The text with comments and the insides of string and character literals blanked; every byte keeps its
/// place.
fn blank_comments_and_strings(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &source[at..];
        let (skip, len) = if rest.starts_with("//") {
            (0, rest.find('\n').unwrap_or(rest.len()))
        } else if let Some(comment) = rest.strip_prefix("/*") {
            (0, comment.find("*/").map_or(rest.len(), |end| end + 4))
        } else if rest.starts_with('"') {
            (1, literal_len(rest, '"'))
        } else if rest.starts_with('\'') && !digit_before(source, at) {
            (1, literal_len(rest, '\''))
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        let inside = at + skip..(at + len).saturating_sub(skip).max(at + skip);
        out[inside].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at += len;
    }
    String::from_utf8(out).expect("whole characters were replaced by blanks")
}

/// Whether a quote at `at` separates digits.
fn digit_before(source: &str, at: usize) -> bool {
    source[..at].ends_with(|c: char| c.is_ascii_hexdigit())
}

fn literal_len(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (index, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => return index,
            _ if c == quote => return index + 1,
            _ => {}
        }
    }
    rest.len()
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Byte positions of a word in the text.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |at| !code[..*at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word))
}

/// The kernels that can be looked up by name. One that is not `extern "C"` would have another name on a GPU.
fn kernels(code: &str, source: &str) -> Result<Vec<String>, String> {
    let mut found: Vec<String> = Vec::new();
    for at in words(code, "__global__") {
        // A macro that is defined in terms of the word is no kernel.
        let line = code[..at].rsplit('\n').next().unwrap_or_default();
        if line.trim_start().starts_with('#') {
            continue;
        }
        let start = code[..at].rfind([';', '}', '{']).map_or(0, |end| end + 1);
        let before = &source[start..at];
        if words(&code[start..at], "template").next().is_some() {
            continue;
        }
        let name = name_of(&code[at + "__global__".len()..]).ok_or_else(|| {
            format!("line {}: a kernel without a name", source[..at].matches('\n').count() + 1)
        })?;
        let in_c_block =
            code[..start].ends_with('{') && source[..start - 1].trim_end().ends_with("extern \"C\"");
        if !before.contains("extern \"C\"") && !in_c_block {
            return Err(format!(
                "the kernel {name} is not extern \"C\", so it cannot be loaded by that name"
            ));
        }
        // A declaration and its definition name the same kernel.
        if !found.contains(&name) {
            found.push(name);
        }
    }
    Ok(found)
}

/// The word before the parameter list of `void [__launch_bounds__(...)] name(`, attributes in any order.
fn name_of(rest: &str) -> Option<String> {
    let mut rest = rest;
    loop {
        let open = rest.find('(')?;
        let head = rest[..open].trim_end();
        let word = &head[head.rfind(|c| !is_word(c)).map_or(0, |at| at + 1)..];
        if word != "__launch_bounds__" {
            return (!word.is_empty()).then(|| word.to_owned());
        }
        rest = &rest[open + rest[open..].find(')')? + 1..];
    }
}

/// Rewrites `extern __shared__ T name[];` into a pointer to the launch's dynamic shared memory.
fn dynamic_arrays(source: &str, code: &str) -> String {
    let mut out = String::new();
    let mut done = 0;
    for shared in words(code, "__shared__") {
        let start = code[..shared].rfind([';', '{', '}']).map_or(0, |at| at + 1);
        let Some(at) = words(&code[start..shared], "extern").next().map(|at| start + at) else { continue };
        let Some(end) = code[shared..].find(';').map(|len| shared + len) else { continue };
        let Some(open) = code[..end].rfind('[').filter(|open| *open > shared) else { continue };
        let specifiers = [&code[at + "extern".len()..shared], &code[shared + "__shared__".len()..open]];
        let kept = without_alignment(&specifiers.join(" "));
        let kept = kept.trim();
        let name_at = kept.rfind(|c| !is_word(c)).map_or(0, |at| at + 1);
        let (kind, name) = (kept[..name_at].trim(), &kept[name_at..]);
        out.push_str(&source[done..at]);
        out.push_str(&format!("{kind}* const {name} = static_cast<{kind}*>(cuda_host::dynamic_shared())"));
        // Line numbers of what follows stay.
        out.extend(std::iter::repeat_n('\n', source[at..end].matches('\n').count()));
        done = end;
    }
    out + &source[done..]
}

/// Without `__align__(n)` and `alignas(n)`: dynamic shared memory is aligned more than they ask.
fn without_alignment(text: &str) -> String {
    let mut text = text.to_owned();
    for word in ["__align__", "alignas"] {
        loop {
            let Some(at) = words(&text, word).next() else { break };
            let end = text[at..].find(')').map_or(text.len(), |len| at + len + 1);
            text.replace_range(at..end, "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel_names(source: &str) -> Result<Vec<String>, String> {
        translate(source, "x.cu").map(|it| it.kernels)
    }

    #[test]
    fn kernels_are_found_where_they_are_and_not_in_comments() {
        let source = "// extern \"C\" __global__ void no(int)\n/* __global__ void neither() */\n\
            #define KERNEL extern \"C\" __global__\n\
            extern \"C\" __global__ void __launch_bounds__(256, 2)\n  one(float* x) {}\n\
            extern \"C\" __launch_bounds__(64) __global__ void two() {}\n\
            template <typename T> __global__ void generic(T* x) {}\n\
            const char* s = \"__global__ void text()\";\n\
            extern \"C\" { __global__ void three(int n) {} }\n";
        assert_eq!(kernel_names(source).expect("kernels"), ["one", "two", "three"]);
    }

    #[test]
    fn a_kernel_with_a_mangled_name_is_refused() {
        let error = kernel_names("__global__ void lost(int n) {}").expect_err("not extern C");
        assert!(error.contains("lost"), "{error}");
        assert!(kernel_names("int x;").is_err());
    }

    #[test]
    fn dynamic_arrays_become_pointers_on_the_same_line() {
        let source = "extern \"C\" __global__ void k() {\n  extern __shared__ __align__(16) unsigned char raw[];\n\
            \n  extern __shared__\n    float sh[]; raw[0] = 1; }\n";
        let text = translate(source, "x.cu").expect("a kernel").text;
        assert!(text.contains(
            "unsigned char* const raw = static_cast<unsigned char*>(cuda_host::dynamic_shared());"
        ));
        assert!(
            text.contains("float* const sh = static_cast<float*>(cuda_host::dynamic_shared())\n; raw[0]"),
            "{text}"
        );
    }
}
