//! The names that dimension expressions share with generated code: `self`, `tokens`, `bs`.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Expr, Macro, Path, visit::Visit};

/// The first place where an expression names `tokens` or `bs`.
pub(crate) fn varying(expr: &Expr) -> Option<Ident> {
    found(expr).into_iter().next()
}

/// Whether an expression names `bs`.
pub(crate) fn names_bs(expr: &Expr) -> bool {
    found(expr).iter().any(|i| i == "bs")
}

fn found(expr: &Expr) -> Vec<Ident> {
    let mut found = Found::default();
    found.visit_expr(expr);
    found.0
}

#[derive(Default)]
struct Found(Vec<Ident>);

impl<'a> Visit<'a> for Found {
    fn visit_path(&mut self, path: &'a Path) {
        match path.get_ident() {
            Some(i) if is_size(i) => self.0.push(i.clone()),
            _ => syn::visit::visit_path(self, path),
        }
    }

    /// A macro's tokens are no syntax tree: any `tokens` or `bs` counts that is not a field.
    fn visit_macro(&mut self, call: &'a Macro) {
        self.tokens(call.tokens.clone());
    }
}

impl Found {
    fn tokens(&mut self, tokens: TokenStream) {
        let mut field = false;
        for token in tokens {
            match &token {
                TokenTree::Ident(i) if is_size(i) && !field => self.0.push(i.clone()),
                TokenTree::Group(g) => self.tokens(g.stream()),
                _ => {}
            }
            field = matches!(&token, TokenTree::Punct(p) if p.as_char() == '.');
        }
    }
}

fn is_size(ident: &Ident) -> bool {
    ident == "tokens" || ident == "bs"
}

/// The identifiers that generated code binds `self`, `tokens` and `bs` with.
///
/// They are the author's own tokens where there are any, and all others of the name are resolved where these are. So
/// names resolve also in a struct that a macro wrote around expressions from elsewhere, and messages stay at the
/// author's text.
pub(crate) struct Bound {
    pub(crate) this: Ident,
    pub(crate) tokens: Ident,
    pub(crate) bs: Ident,
}

impl Bound {
    pub(crate) fn by<'e>(exprs: impl IntoIterator<Item = &'e Expr>) -> Bound {
        let mut found = [None, None, None];
        for expr in exprs {
            first_of(expr.to_token_stream(), &mut found);
        }
        let [this, tokens, bs] = found;
        let or = |found: Option<Ident>, name| found.unwrap_or_else(|| Ident::new(name, Span::call_site()));
        Bound { this: or(this, NAMES[0]), tokens: or(tokens, NAMES[1]), bs: or(bs, NAMES[2]) }
    }

    /// An expression whose `self`, `tokens` and `bs` are these.
    pub(crate) fn expr(&self, expr: &Expr) -> TokenStream {
        self.within(expr.to_token_stream())
    }

    fn within(&self, tokens: TokenStream) -> TokenStream {
        let map = |token| match token {
            TokenTree::Group(g) => {
                let mut group = Group::new(g.delimiter(), self.within(g.stream()));
                group.set_span(g.span());
                TokenTree::Group(group)
            }
            TokenTree::Ident(mut i) => {
                if let Some(ours) = [&self.this, &self.tokens, &self.bs].into_iter().find(|n| **n == i) {
                    i.set_span(i.span().resolved_at(ours.span()));
                }
                TokenTree::Ident(i)
            }
            other => other,
        };
        tokens.into_iter().map(map).collect()
    }
}

const NAMES: [&str; 3] = ["self", "tokens", "bs"];

fn first_of(tokens: TokenStream, found: &mut [Option<Ident>; 3]) {
    for token in tokens {
        match token {
            TokenTree::Group(g) => first_of(g.stream(), found),
            TokenTree::Ident(i) => {
                if let Some(n) = NAMES.iter().position(|name| i == name) {
                    found[n].get_or_insert(i);
                }
            }
            _ => {}
        }
    }
}

/// A name for a generated parameter that none of these tokens contains: `base`, or `base` with a number.
pub(crate) fn unused(base: &str, taken: &TokenStream) -> String {
    fn contains(tokens: &TokenStream, word: &str) -> bool {
        tokens.clone().into_iter().any(|token| match token {
            TokenTree::Ident(i) => i == word,
            TokenTree::Group(g) => contains(&g.stream(), word),
            _ => false,
        })
    }
    let mut name = base.to_string();
    let mut n = 0;
    while contains(taken, &name) {
        n += 1;
        name = format!("{base}_{n}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn sizes_are_found_as_values_and_not_as_fields() {
        let names = |e: Expr| varying(&e).map(|i| i.to_string());
        assert_eq!(names(parse_quote!(self.hidden)), None);
        assert_eq!(names(parse_quote!(self.tokens + self.bs)), None);
        assert_eq!(names(parse_quote!(2 * tokens)).as_deref(), Some("tokens"));
        assert_eq!(names(parse_quote!(if bs > 4 { 1 } else { 2 })).as_deref(), Some("bs"));
        assert_eq!(names(parse_quote!(usize::max(3, f(bs)))).as_deref(), Some("bs"));
        assert_eq!(names(parse_quote!(dim!(self.tokens, [bs]))).as_deref(), Some("bs"));
        assert_eq!(names(parse_quote!(dim!(self.tokens))), None);
        assert!(names_bs(&parse_quote!(tokens + bs)) && !names_bs(&parse_quote!(tokens)));
    }

    #[test]
    fn generated_parameters_keep_clear_of_the_author() {
        assert_eq!(unused("I0", &parse_quote!(B: Ops<Vec<(u8, I0)>>)), "I0_1");
        assert_eq!(unused("I0", &parse_quote!(B: Ops)), "I0");
    }
}
