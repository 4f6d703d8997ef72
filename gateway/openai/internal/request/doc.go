// Package request reads what clients of the OpenAI API send: the bodies of Responses, Chat
// Completions and Conversations. What cannot be done is refused here, with a sentence that says
// what can ([Refusal]); what is left is an [Intent]: what is said, answered and set, and where.
//
// It knows the API and nothing of sessions, keeps nothing and starts no goroutine.
package request
