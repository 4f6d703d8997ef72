package openai

import (
	"context"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/openai/internal/request"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// createConversation is POST /v1/conversations. metadata.title is the session's title, and
// metadata.session its name.
func (a *api) createConversation(c *fiber.Ctx) error {
	body, err := door.Body(c)
	if err != nil {
		return err
	}
	r, err := request.ReadConversation(body)
	if err != nil {
		return err
	}
	id, repeatable, err := clientID(c, "conversation")
	if err != nil {
		return err
	}
	create := protocol.Create{Create: conversation.Create{Title: r.Metadata["title"]}}
	switch name := r.Metadata["session"]; {
	case len(name) > protocol.MaxClientMsgID:
		return request.Refuse("metadata.session", "invalid_value", "The name of a session may have at most 128 bytes.")
	case name != "":
		create.ClientID = name
	case repeatable:
		create.ClientID = "openai:" + string(id)
	}
	who := door.Principal(c)
	key, _, err := a.Open(who, create)
	if err != nil {
		return err
	}
	ctx, cancel := a.Deadline()
	defer cancel()
	return a.showConversation(ctx, c, who, key)
}

// conversationOf is the session of the conversation that a request names.
func (a *api) conversationOf(ctx context.Context, c *fiber.Ctx) (key conversation.SessionKey, err error) {
	id, err := door.Param(c, "id")
	if err != nil {
		return key, err
	}
	who := door.Principal(c)
	if key, err = sessionOf(who, id); err == nil {
		_, err = a.Visible(ctx, who, key)
	}
	if err != nil {
		err = notFound("conversation_id", "Conversation with id '"+request.Excerpt(id)+"' not found.", err)
	}
	return key, err
}

func (a *api) showConversation(ctx context.Context, c *fiber.Ctx, who *service.Principal, key conversation.SessionKey) error {
	v, err := a.View(ctx, key, who.User)
	if err != nil {
		return err
	}
	m := map[string]string{"parley.session": string(key.Session), "parley.agent": string(v.Agent)}
	if v.Title != "" {
		m["title"] = v.Title
	}
	return c.JSON(conversationObject{ID: conversationID(key.Session), Object: "conversation", CreatedAt: v.CreatedAt.Unix(), Metadata: m})
}

func (a *api) getConversation(c *fiber.Ctx) error {
	ctx, cancel := a.Deadline()
	defer cancel()
	key, err := a.conversationOf(ctx, c)
	if err != nil {
		return err
	}
	return a.showConversation(ctx, c, door.Principal(c), key)
}

// updateConversation is POST /v1/conversations/:id: metadata.title is the session's title, and
// nothing else of it is kept.
func (a *api) updateConversation(c *fiber.Ctx) error {
	ctx, cancel := a.Deadline()
	defer cancel()
	key, err := a.conversationOf(ctx, c)
	if err != nil {
		return err
	}
	body, err := door.Body(c)
	if err != nil {
		return err
	}
	r, err := request.ReadConversation(body)
	if err != nil {
		return err
	}
	who := door.Principal(c)
	if title, named := r.Metadata["title"]; named {
		if _, err := a.Tell(ctx, key, who.User, conversation.Update{By: who.User, Title: &title}); err != nil {
			return err
		}
	}
	return a.showConversation(ctx, c, who, key)
}

// deleteConversation is DELETE /v1/conversations/:id: the session is erased.
func (a *api) deleteConversation(c *fiber.Ctx) error {
	ctx, cancel := a.Deadline()
	defer cancel()
	key, err := a.conversationOf(ctx, c)
	if err != nil {
		return err
	}
	if err := a.Sessions.Erase(ctx, key, door.Principal(c).User); err != nil {
		return err
	}
	return c.JSON(deleted{ID: conversationID(key.Session), Object: "conversation.deleted", Deleted: true})
}

// items are those of the conversation that a request names; only is the id of one of them, "" = a page.
func (a *api) items(c *fiber.Ctx, only string) (*items, error) {
	ctx, cancel := a.Deadline()
	defer cancel()
	key, err := a.conversationOf(ctx, c)
	if err != nil {
		return nil, err
	}
	list, err := newItems(c)
	if err != nil {
		return nil, err
	}
	list.only = only
	for n, err := range a.Notes(ctx, door.Principal(c), key, 0, 0) {
		if err != nil {
			return nil, err
		}
		list.add(n)
		if list.know(n); list.ended {
			break
		}
	}
	return list, nil
}

func (a *api) listItems(c *fiber.Ctx) error {
	list, err := a.items(c, "")
	if err != nil {
		return err
	}
	return list.page(c)
}

func (a *api) getItem(c *fiber.Ctx) error {
	id, err := door.Param(c, "item")
	if err != nil {
		return err
	}
	list, err := a.items(c, id)
	if err != nil {
		return err
	}
	if len(list.list) == 0 {
		return &request.Refusal{Status: fiber.StatusNotFound, Param: "item_id", Message: "Item with id '" + request.Excerpt(id) + "' not found."}
	}
	return c.JSON(list.list[0].item)
}

// refused answers with a refusal, to who may see the conversation.
func (a *api) refused(refusal error) fiber.Handler {
	return func(c *fiber.Ctx) error {
		ctx, cancel := a.Deadline()
		defer cancel()
		if _, err := a.conversationOf(ctx, c); err != nil {
			return err
		}
		return refusal
	}
}

// errNoDelete refuses to take one item out of a log.
var errNoDelete = &request.Refusal{Status: fiber.StatusMethodNotAllowed, Code: "not_supported", Message: "An item cannot be deleted by itself: delete its conversation, which erases all of it."}

// anyModel is the model of who does not choose: the agent that the session has, or the default one.
const anyModel = "parley"

func (a *api) models() []model {
	models := []model{{ID: anyModel, Object: "model", OwnedBy: "parley"}}
	for _, agent := range a.Offer.Agents {
		models = append(models, model{ID: agent.Name, Object: "model", OwnedBy: "parley"})
	}
	return models
}

// listModels is GET /v1/models: the agents.
func (a *api) listModels(c *fiber.Ctx) error {
	p := map[string]any{"object": "list", "data": a.models()}
	return c.JSON(p)
}

func (a *api) getModel(c *fiber.Ctx) error {
	id, err := door.Param(c, "model")
	if err != nil {
		return err
	}
	for _, m := range a.models() {
		if m.ID == id {
			return c.JSON(m)
		}
	}
	_, err = a.agent(id)
	return err
}
