// Package slacktest is a workspace of Slack for tests: it speaks Slack's wire format to a bot
// and lets a test be the people in it.
//
// A [Workspace] answers the methods of the Web API that a bot needs, opens Socket Mode
// connections, and sends signed requests to the URL of a bot that receives by the Events API.
// What it delivers is kept until the bot has acknowledged it. Faults are put into its answers
// with [Workspace.Fail].
package slacktest
