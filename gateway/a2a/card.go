package a2a

import (
	"crypto/sha256"
	"encoding/hex"

	"parley/conversation"
	"parley/gateway/protocol"

	"github.com/gofiber/fiber/v2"
)

// cardPath is where clients look for the card of a server.
const cardPath = "/.well-known/agent-card.json"

// publicCard is what everybody may know: how to come in. Which agents there are is in the extended
// card, for those who may.
func (a *api) publicCard(c *fiber.Ctx) error {
	json := a.appendCard(nil, c, "", nil)
	sum := sha256.Sum256(json)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	c.Set(fiber.HeaderCacheControl, "public, max-age=300")
	c.Set(fiber.HeaderETag, tag)
	if c.Get(fiber.HeaderIfNoneMatch) == tag {
		return c.SendStatus(fiber.StatusNotModified)
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(json)
}

// card is the extended card, of the whole server or of the agent that a tenant names.
func (a *api) card(c *fiber.Ctx, tenant string) ([]byte, error) {
	if err := a.knows(tenant); err != nil {
		return nil, err
	}
	return a.appendCard(nil, c, tenant, a.Offer.Agents), nil
}

func (a *api) appendCard(dst []byte, c *fiber.Ctx, tenant string, agents []protocol.OfferedAgent) []byte {
	url := addressOf(a.Services, c) + base
	name, about := "parley", "A conversation engine: a context is a conversation, in which several tasks may be under way, may be steered, and may ask."
	for _, agent := range agents {
		if agent.Name == tenant {
			name = tenant
			if agent.Description != "" {
				about = agent.Description
			}
			agents = []protocol.OfferedAgent{agent}
			break
		}
	}
	return object(dst, func(o *protocol.Object) {
		o.Text("name", name)
		o.Text("description", about)
		o.Text("version", a.Version)
		o.Key("supportedInterfaces")
		o.Bytes = append(o.Bytes, '[')
		for i, binding := range []string{"JSONRPC", "HTTP+JSON"} {
			if i > 0 {
				o.Bytes = append(o.Bytes, ',')
			}
			o.Bytes = object(o.Bytes, func(o *protocol.Object) {
				o.Text("url", url)
				o.Text("protocolBinding", binding)
				o.Optional("tenant", tenant)
				o.Text("protocolVersion", "1.0")
			})
		}
		o.Bytes = append(o.Bytes, ']')
		o.Key("capabilities")
		o.Bytes = object(o.Bytes, func(o *protocol.Object) {
			o.Bool("streaming", true)
			o.Bool("pushNotifications", a.pushes != nil)
			o.Bool("extendedAgentCard", true)
		})
		if a.Auth.Mode() != "none" {
			o.Raw("securitySchemes", `{"bearer":{"httpAuthSecurityScheme":{"scheme":"Bearer","description":"a key or a token of this server"}}}`)
			o.Raw("securityRequirements", `[{"schemes":{"bearer":{"list":[]}}}]`)
		}
		if a.Files != nil {
			o.Raw("defaultInputModes", `["text/plain","application/json","text/*","image/png","image/jpeg","image/gif","image/webp"]`)
		} else {
			o.Raw("defaultInputModes", `["text/plain","application/json"]`)
		}
		o.Raw("defaultOutputModes", `["text/plain"]`)
		o.Key("skills")
		o.Bytes = append(o.Bytes, '[')
		if agents == nil {
			o.Bytes = appendSkill(o.Bytes, "conversation", "Conversation", "Works on what it is told, and answers.", "")
		}
		for i, agent := range agents {
			if i > 0 {
				o.Bytes = append(o.Bytes, ',')
			}
			o.Bytes = appendSkill(o.Bytes, agent.Name, agent.Name, agent.Description, agent.Model)
		}
		o.Bytes = append(o.Bytes, ']')
	})
}

func appendSkill(dst []byte, id, name, about, model string) []byte {
	if about == "" {
		about = "The agent " + conversation.Excerpt(name, 64) + "."
	}
	return object(dst, func(o *protocol.Object) {
		o.Text("id", id)
		o.Text("name", name)
		o.Text("description", about)
		o.Key("tags")
		o.Bytes = append(o.Bytes, `["conversation"`...)
		if model != "" {
			o.Bytes = protocol.AppendString(append(o.Bytes, ','), model)
		}
		o.Bytes = append(o.Bytes, ']')
	})
}
