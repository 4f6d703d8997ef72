// Package assets holds the files of the page as they are sent: compressed once, in
// places that name what is in them, so that a browser keeps them for ever and asks for
// nothing but the page itself again.
//
// The page is index.html; everything else lies below /assets/. New gives every file the
// place /assets/VERSION/NAME, where VERSION is made of the content of all of them, and
// writes these places into index.html, together with all modules that the page's script
// imports: a browser then asks for all of them at once instead of one after another.
// Modules name each other relative to themselves, so they need no change.
package assets
