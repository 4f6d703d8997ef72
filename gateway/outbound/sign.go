package outbound

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks. What is sent again has the same id.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// SecretPrefix is what secrets of Standard Webhooks begin with.
const SecretPrefix = "whsec_"

// The lengths of a secret that Standard Webhooks allows, in bytes.
const minKey, maxKey = 24, 64

// ParseSecret reads a secret: "whsec_" and base64. Errors do not show it.
func ParseSecret(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, SecretPrefix)
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

// Sign is the header of a body that is sent under an id at a time: a signature by each key.
func Sign(keys [][]byte, id string, at time.Time, body []byte) (timestamp, signatures string) {
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
