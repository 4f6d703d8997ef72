// Openai-go has the OpenAI SDK for Go begin a response in the background, and follow it.
package main
