package receipts

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"
)

// Words are the hashes of a text's words in their order, each once. The lowest five bits
// of a hash say of what kind the word is. Where a text has more words than are kept, the
// last one stands for all the rest: two texts that only begin alike are not the same.
type Words []uint32

// The kinds of words.
const (
	number   = 1  // it has a digit, or is a sign; or it says no: two texts that differ in it are not the same
	function = 2  // it stands in nearly every text: "the", "is", "und"
	ack      = 4  // it acknowledges: "done", "yes", "welcome"
	meta     = 8  // it speaks of what was said: "already", "mentioned"
	asking   = 16 // it asks: "when", "wo"
	kinds    = number | function | ack | meta | asking
)

// The bounds of what a session remembers.
const (
	MessageWords = 16  // of an open message
	PartWords    = 32  // of a part that answered one
	OpenWords    = 256 // of a part that was shown while several messages were open
)

// Of are the words of a text, so many at most. A word is a run of letters and digits, with
// the sign of a number, or a symbol. In scripts that put no spaces between words each pair
// of neighbouring characters is one.
func Of(text string, limit int) Words {
	var room [PartWords]uint32
	words := Words(room[:0])
	eachWord(text, func(h uint32) bool {
		words = words.within(h, limit)
		return true
	})
	if len(words) == 0 {
		return nil
	}
	return append(make(Words, 0, len(words)), words...) // as small as it can be: it is remembered
}

// MarshalText gives the words in base64, four bytes each, least first: numbers would take
// twice the room of a snapshot, and most of the time to read one.
func (w Words) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, 4*len(w))
	for _, h := range w {
		raw = binary.LittleEndian.AppendUint32(raw, h)
	}
	return base64.RawStdEncoding.AppendEncode(nil, raw), nil
}

// UnmarshalText reads what MarshalText wrote.
func (w *Words) UnmarshalText(text []byte) error {
	raw, err := base64.RawStdEncoding.AppendDecode(nil, text)
	if err != nil || len(raw)%4 != 0 {
		return fmt.Errorf("%d characters are no words: %w", len(text), err)
	}
	*w = make(Words, 0, len(raw)/4)
	for ; len(raw) > 0; raw = raw[4:] {
		*w = append(*w, binary.LittleEndian.Uint32(raw))
	}
	return nil
}

// And are the words and those of what follows, so many at most.
func (w Words) And(more Words, limit int) Words {
	if len(w) == 0 && len(more) <= limit {
		return more
	}
	all := slices.Clone(w)
	for _, h := range more {
		all = all.within(h, limit)
	}
	return all
}

// within adds a word, to the last one where there are as many as may be.
func (w Words) within(h uint32, limit int) Words {
	switch {
	case w.has(h):
		return w
	case len(w) < limit:
		return append(w, h)
	}
	last := &w[len(w)-1]
	*last = (*last^h)*prime&^kinds | number
	return w
}

// The hash is FNV-1a of the lower-case letters.
const (
	offset = 2166136261
	prime  = 16777619
)

// eachWord hashes the words of a text in their order, with their kinds, until yield says no.
// A number is of no other kind: one in 150,000 has the hash of a word that is known.
func eachWord(text string, yield func(uint32) bool) {
	eachHash(text, func(h uint32) bool {
		if h&number == 0 {
			h |= kindOf[h&^kinds]
		}
		return yield(h)
	})
}

// eachHash does so with no other kind than number.
func eachHash(text string, yield func(uint32) bool) {
	within, kind, hash := false, uint32(0), uint32(offset)
	end := func() bool {
		if !within {
			return true
		}
		h := hash&^kinds | kind
		within, kind, hash = false, 0, offset
		return yield(h)
	}
	var before rune        // the neighbour in a script without spaces; 0 = none
	paired := false        // it is part of a word already
	alone := func() bool { // a single character of such a script
		r := before
		if before = 0; r == 0 || paired {
			return true
		}
		return yield(with(offset, r) &^ kinds)
	}
	sign := false // the character before may be the sign of a number
	for _, r := range text {
		minus := sign && unicode.IsDigit(r)
		sign = !within && (r == '-' || r == '−')
		switch {
		case r >= utf8.RuneSelf && (unicode.In(r, scripts...) || r == 'ー'):
			if !end() {
				return
			}
			if before != 0 {
				paired = true
				if !yield(with(with(offset, before), r) &^ kinds) {
					return
				}
			} else {
				paired = false
			}
			before = r
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) && within:
			if !alone() {
				return
			}
			if within = true; minus {
				hash = with(hash, '-')
			}
			if unicode.IsDigit(r) {
				kind |= number
			}
			hash = with(hash, unicode.ToLower(r))
		case r == '<' || r == '>' || unicode.Is(unicode.So, r):
			if !end() || !alone() || !yield(with(offset, r)&^kinds|number) {
				return
			}
		default:
			if !end() || !alone() {
				return
			}
		}
	}
	if end() {
		alone()
	}
}

func with(hash uint32, r rune) uint32 {
	for ; r != 0; r >>= 8 {
		hash = (hash ^ uint32(r&0xff)) * prime
	}
	return hash
}

// scripts are those that put no spaces between words.
var scripts = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

func (w Words) has(h uint32) bool { return slices.Contains(w, h) }

// in counts the words that are in other as well.
func (w Words) in(other Words) int {
	n := 0
	for _, h := range w {
		if other.has(h) {
			n++
		}
	}
	return n
}

// mostlyIn is true when nine of ten words of the content are in the content of other.
func (w Words) mostlyIn(other Words) bool { // it is asked of each remembered answer, so it makes no copies
	all, n := 0, 0
	mine, theirs := w.hasContent(), other.hasContent()
	for _, h := range w {
		if isFunction := h&kinds == function; !mine || !isFunction {
			if all++; (!theirs || !isFunction) && other.has(h) {
				n++
			}
		}
	}
	return all > 0 && 10*n >= 9*all
}

// content are the words that are no function words; all of them where there are no others.
func (w Words) content() Words {
	if !w.hasContent() {
		return w
	}
	return slices.DeleteFunc(slices.Clone(w), func(h uint32) bool { return h&kinds == function })
}

// IsContent is true for a word that is no function word and does not only acknowledge.
func IsContent(word uint32) bool { return word&(function|ack) == 0 }

func (w Words) hasContent() bool {
	return slices.ContainsFunc(w, func(h uint32) bool { return h&kinds != function })
}

// Acknowledge is true for words that say nothing but that something was heard, or done.
func (w Words) Acknowledge() bool {
	return !slices.ContainsFunc(w, func(h uint32) bool { return h&(function|ack) == 0 })
}

// speaksOfItself is true for words that tell that something was said, and not what.
func (w Words) speaksOfItself() bool {
	return slices.ContainsFunc(w, func(h uint32) bool { return h&meta != 0 }) &&
		!slices.ContainsFunc(w, func(h uint32) bool { return h&(function|ack|meta) == 0 })
}

// withoutMeta are the words that tell what is said.
func (w Words) withoutMeta() Words {
	return slices.DeleteFunc(slices.Clone(w), func(h uint32) bool { return h&meta != 0 })
}

// runsIn is true for words that stand in other one behind the other.
func (w Words) runsIn(other Words) bool {
	for i := range len(other) - len(w) + 1 {
		if slices.Equal(w, other[i:i+len(w)]) {
			return true
		}
	}
	return false
}

// numbersIn is true when each number is in other as well.
func (w Words) numbersIn(other Words) bool {
	return !slices.ContainsFunc(w, func(h uint32) bool { return h&number != 0 && !other.has(h) })
}

// kindOf tells the kind of the words that are known, of English, German, French, Spanish,
// Japanese and Chinese.
var kindOf = func() map[uint32]uint32 {
	m := map[uint32]uint32{}
	add := func(words string, kind uint32) {
		eachHash(words, func(h uint32) bool {
			m[h&^kinds] |= kind
			return true
		})
	}
	add(functionWords, function)
	add(ackWords, ack)
	add(metaWords, meta)
	add(askingWords, asking)
	add(noWords, number)
	return m
}()

// functionWords has no word that says no, and none that asks.
const functionWords = `
		a about above after again all also am an and any are as at be because been before being but by can could did do does for from
		get give had has have he her here him his i if in into is it its just like ll m may me more much must my now of off on or our
		out over please re s say shall she should so some such t tell than that the their them then there these they this those
		through to too up us ve very was we were while will with would you your
		aber alle als also am an auch auf aus bei bin bis bitte da dann das dass dein dem den der des die dir dich du durch ein eine
		einem einen einer eines er es euch für hat habe haben hast hier ich ihm ihn ihr ihre im ist ja man mein mich mir mit nach noch
		nun nur ob oder schon sehr sein sich sie sind so um und uns unser von vor war was wenn werden wieder
		wird zu zum zur über
		à ai au aux avec c ce ces cet cette d dans de des du elle elles en est et eu il ils j je l la le les leur lui m ma mes moi mon n
		nous on ou par plus pour qu que s sa se ses si son sont sur ta te tes toi ton tu un une vos
		votre vous y été être
		al algo como con de del e el ella ellos en era es esa ese eso esta este esto está están fue ha
		han hay la las le les lo los más me mi mis muy o para pero por porque que se ser si sobre son su sus te tu tus un
		una unas unos y ya yo`

// noWords has none that is an answer of its own.
const noWords = `not never nicht nie kein keine pas jamais nunca`

const ackWords = `
		yes no yep nope ok okay sure done noted added saved sent deleted removed updated changed booked got right correct great good fine perfect thanks
		thank welcome pleasure anytime problem worries glad happy help let know need anything else course absolutely certainly understood alright
		ja nein klar gern gerne erledigt gemacht notiert hinzugefügt gespeichert gesendet gelöscht geändert gebucht bitte schön willkommen
		gut alles danke selbstverständlich natürlich verstanden geschehen
		oui non accord fait noté ajouté supprimé envoyé enregistré modifié rien merci prie bien sûr parfait compris volontiers plaisir
		sí vale hecho listo anotado añadido agregado guardado enviado borrado nada gracias claro gusto perfecto entendido
		はい いいえ 了解です 承知しました 完了しました 追加しました どういたしまして かしこまりました ありがとうございます
		好的 是的 不是 没有 完成 已添加 已完成 不客气 不用谢 没问题 可以 收到 谢谢`

const metaWords = `
		already answered answering answer mentioned said above earlier previously stated explained response reply message question repeat
		repeated wiederhole wiederholen nochmal répète répéter répétez repite repita repetir
		bereits beantwortet gesagt erwähnt oben geschrieben erklärt antwort frage nachricht
		déjà répondu dit mentionné dessus expliqué réponse question
		respondí respondido dicho dije mencioné mencionado arriba anteriormente respuesta pregunta
		すでに 既に 上記 先ほど 回答
		已经 回答 上面 前面 说过 提到 回复`

const askingWords = `
		what when where which who whom whose why how wann was welche welcher welches wer wo warum wie où quel quelle quelles quels qui quand combien
		comment pourquoi cómo cuando cuándo cuál donde dónde qué quién cuánto cuánta cuántos cuántas porqué` //nolint:misspell // Spanish
