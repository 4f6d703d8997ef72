package platforms

import (
	"iter"

	"parley/conversation"
	"parley/gateway/chat"
)

// Channels are the ways that messages come, and the channels to chat platforms.
type Channels struct {
	WebSocket conversation.Mode `key:"channels.websocket.mode" choices:",steer,queue,collect,interrupt,reject"`
	HTTP      conversation.Mode `key:"channels.http.mode" choices:",steer,queue,collect,interrupt,reject"`

	Slack    Slack    `prefix:"channels.slack."`
	Discord  Discord  `prefix:"channels.discord."`
	Telegram Telegram `prefix:"channels.telegram."`
}

// ChatChannel is what [channels.NAME] of every chat platform says.
type ChatChannel struct {
	Enabled   bool              `key:"enabled"`
	Tenant    string            `key:"tenant"`     // whose the sessions are
	TokenEnv  string            `key:"token_env"`  // the variable that holds the bot's token
	TokenFile string            `key:"token_file"` // or the file that does, beside the configuration file
	APIURL    string            `key:"api_url"`    // "" = the platform's own; for proxies and tests
	Mode      conversation.Mode `key:"mode" choices:",steer,queue,collect,interrupt,reject"`
	Answer    string            `key:"answer" choices:"mention,all"`           // in groups: what is meant for the bot
	Overflow  chat.Overflow     `key:"overflow" choices:"split,truncate,none"` // texts that are too long for a message
	Reactions bool              `key:"reactions"`                              // the state of messages is shown by reactions
	Chats     []string          `key:"allow_chats"`                            // [] = none, ["*"] = all
	Users     []string          `key:"allow_users"`                            // who may write
	Readers   []string          `key:"allow_readers"`                          // who may ask
	UserRate  int               `key:"user_rate" min:"0" max:"100000"`         // messages of one person in a minute; 0 = no limit
	MaxChats  int               `key:"max_chats" min:"0" max:"1000000"`        // that are followed at a time; 0 = no limit
	Waiting   int               `key:"max_waiting" min:"1" max:"1000000"`      // updates that wait at a time
}

// Workspaces are the lists of platforms that have workspaces.
type Workspaces struct {
	Allowed []string `key:"allow_workspaces"` // Slack teams, Discord servers
}

// Slack is [channels.slack].
type Slack struct {
	ChatChannel
	Workspaces
	Receive     string `key:"receive" choices:"socket,events"`
	AppEnv      string `key:"app_token_env"` // for Socket Mode
	AppFile     string `key:"app_token_file"`
	SigningEnv  string `key:"signing_secret_env"` // for the Events API
	SigningFile string `key:"signing_secret_file"`
}

// Discord is [channels.discord].
type Discord struct {
	ChatChannel
	Workspaces
	GatewayURL string `key:"gateway_url"` // "" = as Discord says
}

// Telegram is [channels.telegram].
type Telegram struct {
	ChatChannel
	Receive    string `key:"receive" choices:"poll,webhook"`
	WebhookURL string `key:"webhook_url"` // where Telegram reaches POST /channels/telegram
	SecretEnv  string `key:"webhook_secret_env"`
	SecretFile string `key:"webhook_secret_file"`
}

// Default are those of a configuration that says nothing.
func Default() Channels {
	of := func(variable string) ChatChannel {
		return ChatChannel{
			Tenant: "default", TokenEnv: variable, Answer: "mention", Overflow: chat.OverflowSplit, Reactions: true,
			Chats: []string{}, Users: []string{}, Readers: []string{}, UserRate: 20, MaxChats: 10_000, Waiting: 1000,
		}
	}
	return Channels{
		Slack: Slack{
			ChatChannel: of("SLACK_BOT_TOKEN"), Workspaces: Workspaces{[]string{}}, Receive: "socket",
			AppEnv: "SLACK_APP_TOKEN", SigningEnv: "SLACK_SIGNING_SECRET",
		},
		Discord:  Discord{ChatChannel: of("DISCORD_BOT_TOKEN"), Workspaces: Workspaces{[]string{}}},
		Telegram: Telegram{ChatChannel: of("TELEGRAM_BOT_TOKEN"), Receive: "poll", SecretEnv: "TELEGRAM_WEBHOOK_SECRET"},
	}
}

// Chat iterates over the channels to chat platforms.
func (c *Channels) Chat() iter.Seq2[conversation.Via, *ChatChannel] {
	return func(yield func(conversation.Via, *ChatChannel) bool) {
		_ = yield(conversation.ViaSlack, &c.Slack.ChatChannel) &&
			yield(conversation.ViaDiscord, &c.Discord.ChatChannel) &&
			yield(conversation.ViaTelegram, &c.Telegram.ChatChannel)
	}
}

// Settings are those of a channel for the room of chat platforms.
func (c *ChatChannel) Settings(workspaces []string) chat.Settings {
	return chat.Settings{
		Tenant: conversation.TenantID(c.Tenant), All: c.Answer == "all", Overflow: c.Overflow, Reactions: c.Reactions,
		Allow:    chat.Lists{Chats: c.Chats, Users: c.Users, Readers: c.Readers, Workspaces: workspaces},
		UserRate: c.UserRate, MaxChats: c.MaxChats, MaxWaiting: c.Waiting,
	}
}

// Secrets are the credentials of channels: the variable and the file where each one is, by the key
// that says so, such as "channels.slack.app_token".
func (c *Channels) Secrets() map[string][2]string {
	return map[string][2]string{
		"channels.slack.token":             {c.Slack.TokenEnv, c.Slack.TokenFile},
		"channels.slack.app_token":         {c.Slack.AppEnv, c.Slack.AppFile},
		"channels.slack.signing_secret":    {c.Slack.SigningEnv, c.Slack.SigningFile},
		"channels.discord.token":           {c.Discord.TokenEnv, c.Discord.TokenFile},
		"channels.telegram.token":          {c.Telegram.TokenEnv, c.Telegram.TokenFile},
		"channels.telegram.webhook_secret": {c.Telegram.SecretEnv, c.Telegram.SecretFile},
	}
}

// Files are the paths of credentials, by their keys.
func (c *Channels) Files() map[string]*string {
	return map[string]*string{
		"channels.slack.token_file": &c.Slack.TokenFile, "channels.slack.app_token_file": &c.Slack.AppFile,
		"channels.slack.signing_secret_file": &c.Slack.SigningFile, "channels.discord.token_file": &c.Discord.TokenFile,
		"channels.telegram.token_file": &c.Telegram.TokenFile, "channels.telegram.webhook_secret_file": &c.Telegram.SecretFile,
	}
}
