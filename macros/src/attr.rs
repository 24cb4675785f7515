//! The attributes as they were written. A mistake is recorded and parsing goes on after the next comma.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::{
    Attribute, Error, Expr, LitBool, LitStr, Path, Result, Token, Type, bracketed,
    ext::IdentExt,
    parenthesized,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
    spanned::Spanned,
    token,
};

use crate::mistakes::{Mistakes, allowed, closest, hint};

/// All attributes of one struct.
#[derive(Default)]
pub(crate) struct Attrs {
    pub(crate) region: RegionAttr,
    pub(crate) inputs: Vec<IoAttr>,
    pub(crate) outputs: Vec<IoAttr>,
}

/// `#[region(..)]`; several add up.
#[derive(Default)]
pub(crate) struct RegionAttr {
    /// Where it was written, if it was.
    pub(crate) at: Option<Span>,
    /// Whether nothing of it could be read.
    pub(crate) unreadable: bool,
    /// Keys that were written, well or not.
    pub(crate) seen: Vec<String>,
    pub(crate) node: Option<LitStr>,
    pub(crate) name: Option<LitStr>,
    pub(crate) packed: Option<(Span, Option<Sizes>)>,
    pub(crate) batched: Option<(Span, Option<Expr>)>,
    pub(crate) batch_sizes: Option<Sizes>,
    pub(crate) compile: Option<LitBool>,
    pub(crate) lease_before_step: Option<LitBool>,
    pub(crate) backend: Option<(Span, Type)>,
    pub(crate) backends: Option<(Span, Vec<Type>)>,
    pub(crate) elements: Option<ElementsAttr>,
    pub(crate) krate: Option<Path>,
}

/// A list of sizes.
pub(crate) struct Sizes {
    pub(crate) at: Span,
    pub(crate) list: Vec<Expr>,
}

/// `elements(A = [f32, bf16])`.
pub(crate) struct ElementsAttr {
    pub(crate) param: Ident,
    pub(crate) at: Span,
    pub(crate) list: Vec<Path>,
}

/// `#[input(..)]` or `#[output(..)]`.
pub(crate) struct IoAttr {
    pub(crate) name: Ident,
    pub(crate) elem: Option<Path>,
    pub(crate) dims: Option<(Span, Vec<Expr>)>,
    pub(crate) pad: Option<PadAttr>,
    pub(crate) host: Option<Span>,
    pub(crate) wire: Option<WireAttr>,
}

pub(crate) enum PadAttr {
    Zero,
    RepeatLast,
    Value(Expr),
}

pub(crate) struct WireAttr {
    pub(crate) at: Span,
    pub(crate) name: Ident,
    pub(crate) index: Expr,
}

const REGION_KEYS: [&str; 11] = [
    "node",
    "name",
    "packed",
    "batched",
    "batch_sizes",
    "compile",
    "lease_before_step",
    "backend",
    "backends",
    "elements",
    "crate",
];
const IO_KEYS: [&str; 3] = ["pad", "host", "wire"];
const PADS: [&str; 3] = ["zero", "repeat_last", "value(..)"];

impl Attrs {
    pub(crate) fn parse(attrs: &[Attribute], mistakes: &mut Mistakes) -> Attrs {
        let mut all = Attrs::default();
        for attr in attrs {
            let what = attr.path();
            let before = mistakes.count();
            let parsed = if what.is_ident("region") {
                all.region.at.get_or_insert(what.span());
                attr.parse_args_with(|s: ParseStream| {
                    all.region.parse(s, mistakes);
                    Ok(())
                })
            } else if what.is_ident("input") || what.is_ident("output") {
                let (word, list) = match what.is_ident("input") {
                    true => ("input", &mut all.inputs),
                    false => ("output", &mut all.outputs),
                };
                attr.parse_args_with(|s: ParseStream| {
                    list.push(IoAttr::parse(s, word, mistakes)?);
                    Ok(())
                })
            } else {
                continue;
            };
            // After a mistake, what it left unread is no other mistake.
            if let (Err(error), true) = (parsed, mistakes.count() == before) {
                all.region.unreadable |= what.is_ident("region");
                mistakes.syntax(error);
            }
        }
        all
    }
}

impl RegionAttr {
    fn parse(&mut self, s: ParseStream, mistakes: &mut Mistakes) {
        let mut seen = std::mem::take(&mut self.seen);
        keys(s, "`#[region]`", &REGION_KEYS, &mut seen, mistakes, |key, s, mistakes| {
            let at = key.span();
            match key.unraw().to_string().as_str() {
                "node" => self.node = Some(value(s, "a string, such as `node = \"llama\"`")?),
                "name" => self.name = Some(value(s, "a string, such as `name = \"mlp\"`")?),
                "batch_sizes" => self.batch_sizes = Some(sizes(s, "`batch_sizes = [1, 2, 4]`")?),
                "compile" => self.compile = Some(value(s, "`true` or `false`")?),
                "lease_before_step" => self.lease_before_step = Some(value(s, "`true` or `false`")?),
                "backend" => self.backend = Some((at, value(s, "a type, such as `backend = Host`")?)),
                "crate" => self.krate = Some(value(s, "a path, such as `crate = ::graph_core`")?),
                "backends" => {
                    let inner = within(s, "`backends(Host, Cuda)`")?;
                    let list = Punctuated::<Type, Token![,]>::parse_terminated(&inner)?;
                    self.backends = Some((at, list.into_iter().collect()));
                }
                "elements" => {
                    let example = "`elements(A = [f32, bf16])`";
                    self.elements = Some(ElementsAttr::parse(&within(s, example)?, example)?);
                }
                "packed" => {
                    let inner = within(s, "`packed(total_tokens = [16, 64])`")?;
                    let (before, mut totals) = (mistakes.count(), None);
                    keys(&inner, "`packed(..)`", &["total_tokens"], &mut Vec::new(), mistakes, |_, s, _| {
                        totals = Some(sizes(s, "`total_tokens = [16, 64]`")?);
                        Ok(())
                    });
                    if totals.is_some() || mistakes.count() == before {
                        self.packed = Some((at, totals));
                    }
                }
                _ => {
                    let inner = within(s, "`batched(seq_len = 16)`")?;
                    let (before, mut seq_len) = (mistakes.count(), None);
                    keys(&inner, "`batched(..)`", &["seq_len"], &mut Vec::new(), mistakes, |_, s, _| {
                        seq_len = Some(value(s, "an expression, such as `seq_len = 16`")?);
                        Ok(())
                    });
                    if seq_len.is_some() || mistakes.count() == before {
                        self.batched = Some((at, seq_len));
                    }
                }
            }
            Ok(())
        });
        self.seen = seen;
    }
}

impl ElementsAttr {
    fn parse(s: ParseStream, example: &str) -> Result<ElementsAttr> {
        let wrong =
            |e: Error| Error::new(e.span(), format!("expected a type parameter and a list, as in {example}"));
        let param = s.parse().map_err(wrong)?;
        s.parse::<Token![=]>().map_err(wrong)?;
        if !s.peek(token::Bracket) {
            return Err(wrong(s.error("")));
        }
        let inner;
        let at = bracketed!(inner in s).span.join();
        let list = Punctuated::<Path, Token![,]>::parse_terminated(&inner).map_err(wrong)?;
        match s.is_empty() {
            true => Ok(ElementsAttr { param, at, list: list.into_iter().collect() }),
            false => Err(wrong(s.error(""))),
        }
    }
}

impl IoAttr {
    /// An error only where not even a name was found.
    fn parse(s: ParseStream, word: &str, mistakes: &mut Mistakes) -> Result<IoAttr> {
        let example = format!("as in `#[{word}(x: f32 [tokens, self.hidden])]`");
        let keyword = s.fork().call(Ident::parse_any).map(|k| format!("; `{k}` is a keyword: write `r#{k}`"));
        let name = s.parse::<Ident>().map_err(|e| {
            let keyword = keyword.unwrap_or_default();
            Error::new(e.span(), format!("expected the name of the {word}, {example}{keyword}"))
        })?;
        let mut io = IoAttr { name, elem: None, dims: None, pad: None, host: None, wire: None };
        if let Err(error) = io.parse_type(s, word, &example).and_then(|()| io.parse_keys(s, word, mistakes)) {
            mistakes.syntax(error);
            let _ = s.parse::<TokenStream>();
        }
        Ok(io)
    }

    fn parse_type(&mut self, s: ParseStream, word: &str, example: &str) -> Result<()> {
        let wanted =
            |at, what: &str| Error::new(at, format!("expected {what} of {word} `{}`, {example}", self.name));
        s.parse::<Token![:]>().map_err(|e| wanted(e.span(), "`:` and the element"))?;
        self.elem = Some(s.parse().map_err(|e: Error| wanted(e.span(), "the element"))?);
        if !s.peek(token::Bracket) {
            return Err(wanted(s.span(), "the dimensions"));
        }
        let inner;
        let at = bracketed!(inner in s).span.join();
        self.dims =
            Some((at, Punctuated::<Expr, Token![,]>::parse_terminated(&inner)?.into_iter().collect()));
        Ok(())
    }

    fn parse_keys(&mut self, s: ParseStream, word: &str, mistakes: &mut Mistakes) -> Result<()> {
        if s.is_empty() {
            return Ok(());
        }
        s.parse::<Token![,]>()?;
        let io = self;
        let owner = format!("{word} `{}`", io.name);
        let name = io.name.clone();
        keys(s, &owner, &IO_KEYS, &mut Vec::new(), mistakes, |key, s, _| {
            let at = key.span();
            match (key.to_string().as_str(), word) {
                ("pad", "output") => Err(Error::new(
                    at,
                    format!(
                        "`pad` on output `{name}`: outputs are not padded, only the first rows are given back"
                    ),
                )),
                ("host", "output") => {
                    Err(Error::new(at, format!("`host` on output `{name}`: outputs are on the device")))
                }
                ("pad", _) => {
                    let wanted =
                        |e: Error| Error::new(e.span(), format!("expected `pad = ..`: {}", allowed(&PADS)));
                    s.parse::<Token![=]>().map_err(wanted)?;
                    io.pad = Some(PadAttr::parse(s, &owner)?);
                    Ok(())
                }
                ("host", _) => {
                    io.host = Some(at);
                    Ok(())
                }
                _ => {
                    io.wire = Some(WireAttr::parse(at, s, &owner)?);
                    Ok(())
                }
            }
        });
        Ok(())
    }
}

impl PadAttr {
    fn parse(s: ParseStream, owner: &str) -> Result<PadAttr> {
        let wrong = |at, got: &str| {
            let close = closest(got, &["zero", "repeat_last", "value"]);
            Error::new(at, format!("unknown pad `{got}` of {owner}: {}{}", allowed(&PADS), hint(close)))
        };
        let word: Ident = s
            .call(Ident::parse_any)
            .map_err(|e| Error::new(e.span(), format!("expected a pad for {owner}: {}", allowed(&PADS))))?;
        match word.to_string().as_str() {
            "zero" => Ok(PadAttr::Zero),
            "repeat_last" => Ok(PadAttr::RepeatLast),
            "value" => {
                let inner = within(s, "`value(..)`")?;
                let value =
                    inner.parse().map_err(|e| Error::new(e.span(), "expected a value, such as `value(-1)`"));
                value.map(PadAttr::Value)
            }
            other => Err(wrong(word.span(), other)),
        }
    }
}

impl WireAttr {
    fn parse(at: Span, s: ParseStream, owner: &str) -> Result<WireAttr> {
        let wrong = |e: Error| {
            Error::new(
                e.span(),
                format!("`wire` of {owner} is a name and an index, such as `wire = h[self.layer]`"),
            )
        };
        s.parse::<Token![=]>().map_err(wrong)?;
        let name = s.parse().map_err(wrong)?;
        if !s.peek(token::Bracket) {
            return Err(wrong(Error::new(s.span(), "")));
        }
        let inner;
        bracketed!(inner in s);
        let index = inner.parse().map_err(wrong)?;
        if !inner.is_empty() {
            return Err(wrong(inner.error("")));
        }
        Ok(WireAttr { at, name, index })
    }
}

/// Keys apart by commas. Unknown and repeated ones are recorded, and so is what `each` reports.
fn keys(
    s: ParseStream,
    owner: &str,
    known: &[&str],
    seen: &mut Vec<String>,
    mistakes: &mut Mistakes,
    mut each: impl FnMut(&Ident, ParseStream, &mut Mistakes) -> Result<()>,
) {
    while !s.is_empty() {
        let parsed = s.call(Ident::parse_any).and_then(|key| {
            let word = key.unraw().to_string();
            if !known.contains(&word.as_str()) {
                let close = closest(&word, known);
                // What was meant is not missing as well.
                seen.extend(close.map(String::from));
                let message = format!("unknown key `{word}` in {owner}: {}{}", allowed(known), hint(close));
                return Err(Error::new(key.span(), message));
            }
            if seen.contains(&word) {
                return Err(Error::new(key.span(), format!("`{word}` is given twice in {owner}")));
            }
            seen.push(word.clone());
            each(&key, s, mistakes)?;
            if !s.is_empty() && !s.peek(Token![,]) {
                mistakes.at(s.span(), format!("expected `,` after `{word}` in {owner}"));
                // Nothing is lost where only the comma is.
                let next = s.fork().call(Ident::parse_any);
                return Ok(next.is_ok_and(|next| known.iter().any(|k| next == k)));
            }
            Ok(false)
        });
        match parsed {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => mistakes.syntax(error),
        }
        // On to the next key.
        while !s.is_empty() && s.parse::<Option<Token![,]>>().is_ok_and(|comma| comma.is_none()) {
            let _ = s.parse::<TokenTree>();
        }
    }
}

/// `= value`.
fn value<T: Parse>(s: ParseStream, wanted: &str) -> Result<T> {
    let wrong = |e: Error| Error::new(e.span(), format!("expected {wanted}"));
    s.parse::<Token![=]>().map_err(wrong)?;
    s.parse().map_err(wrong)
}

/// `= [a, b]`.
fn sizes(s: ParseStream, wanted: &str) -> Result<Sizes> {
    let wrong = |e: Error| Error::new(e.span(), format!("expected a list, such as {wanted}"));
    s.parse::<Token![=]>().map_err(wrong)?;
    if !s.peek(token::Bracket) {
        return Err(wrong(Error::new(s.span(), "")));
    }
    let inner;
    let at = bracketed!(inner in s).span.join();
    let list = Punctuated::<Expr, Token![,]>::parse_terminated(&inner)?.into_iter().collect();
    Ok(Sizes { at, list })
}

/// What stands between parentheses.
fn within<'s>(s: ParseStream<'s>, wanted: &str) -> Result<syn::parse::ParseBuffer<'s>> {
    if !s.peek(token::Paren) {
        return Err(Error::new(s.span(), format!("expected {wanted}")));
    }
    let inner;
    parenthesized!(inner in s);
    Ok(inner)
}
