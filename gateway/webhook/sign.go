package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// The lengths of a secret that Standard Webhooks allows, in bytes.
const minKey, maxKey = 24, 64

// parseSecret reads a secret: "whsec_" and base64.
func parseSecret(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, "whsec_")
	if !ok {
		return nil, errors.New(`the secret must begin with "whsec_"`)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New(`the secret must be base64 behind "whsec_"`) // the error would show some of it
	}
	if len(key) < minKey || len(key) > maxKey {
		return nil, errors.New("the secret must be 24 to 64 bytes in base64 (openssl rand -base64 32)")
	}
	return key, nil
}

// sign is the header of a body that is sent under an id at a time: a signature by each key.
func sign(keys [][]byte, id string, at time.Time, body []byte) (timestamp, signatures string) {
	timestamp = strconv.FormatInt(at.Unix(), 10)
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		if i > 0 {
			signatures += " "
		}
		signatures += "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return timestamp, signatures
}
