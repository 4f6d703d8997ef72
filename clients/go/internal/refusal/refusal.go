package refusal

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// A Refusal is an error as frames have it; Status is HTTP's.
type Refusal struct {
	Code         string `json:"code"`
	Message      string `json:"message"`
	Retryable    bool   `json:"retryable"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	TaskStatus   string `json:"task_status"`
	NextPart     *int   `json:"next_part"`
	Generation   int    `json:"generation"`
	Status       int    `json:"-"`
}

// Of is the refusal in an answer of HTTP; without one of parley's, its status.
func Of(response *http.Response, body []byte) *Refusal {
	var p struct {
		Code       string `json:"code"`
		Detail     string `json:"detail"`
		Title      string `json:"title"`
		Retryable  *bool  `json:"retryable"`
		TaskStatus string `json:"task_status"`
		NextPart   *int   `json:"next_part"`
		Generation int    `json:"generation"`
	}
	_ = json.Unmarshal(body, &p) // what it does not say stays empty
	status := response.StatusCode
	r := &Refusal{
		Code: p.Code, Message: p.Detail, Status: status, TaskStatus: p.TaskStatus, NextPart: p.NextPart, Generation: p.Generation,
		Retryable: status == http.StatusTooManyRequests || status >= 500,
	}
	if p.Retryable != nil {
		r.Retryable = *p.Retryable
	}
	if r.Message == "" {
		r.Message = p.Title
	}
	if r.Message == "" {
		r.Message = "the server answered " + response.Status
	}
	if r.Code == "" {
		r.Code = byStatus(status)
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		r.RetryAfterMS = int64(seconds) * 1000
	}
	return r
}

// byStatus is the code of an answer that has none: a proxy's.
func byStatus(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "unauthenticated"
	case status == http.StatusForbidden:
		return "forbidden"
	case status == http.StatusNotFound:
		return "not_found"
	case status == http.StatusTooManyRequests:
		return "rate_limited"
	case status >= 500:
		return "unavailable"
	default:
		return "bad_request"
	}
}
