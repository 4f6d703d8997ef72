package tracing

import "go.opentelemetry.io/otel/attribute"

// The names of spans. A name in capitals stands for one of the configuration.
const (
	spanTask    = "task"         // task AGENT: from RUNNING to its end, waits for answers included
	spanStep    = "step"         // from step_started to step_finished, all attempts
	spanChat    = "chat"         // chat MODEL: one attempt, a model call
	spanTool    = "execute_tool" // execute_tool NAME
	spanInvoke  = "invoke_agent" // invoke_agent NAME: a delegation; the sub-session's task is below it
	spanCommit  = "store commit" // one commit of the session's log
	spanMessage = "message"      // from message_accepted until a step reads it, or it ends unread
	scope       = "parley"       // the instrumentation scope
	serviceName = "parley"       // unless OTEL_SERVICE_NAME says another
)

// The attributes of spans. Those of OpenTelemetry's conventions for generative AI
// keep the names that they have there.
const (
	attrTenant    = attribute.Key("parley.tenant")
	attrSession   = attribute.Key("gen_ai.conversation.id")
	attrTask      = attribute.Key("parley.task.id")
	attrStatus    = attribute.Key("parley.task.status")
	attrReason    = attribute.Key("parley.task.reason")
	attrMode      = attribute.Key("parley.message.mode")
	attrMessage   = attribute.Key("parley.message.id")
	attrResolved  = attribute.Key("parley.message.resolved") // of a message that ended unread
	attrStep      = attribute.Key("parley.step")
	attrSteps     = attribute.Key("parley.steps")
	attrAttempt   = attribute.Key("parley.attempt")
	attrAttempts  = attribute.Key("parley.attempts")
	attrOutcome   = attribute.Key("parley.outcome")
	attrDecisions = attribute.Key("parley.decisions")
	attrEvents    = attribute.Key("parley.commit.events")
	attrWaiters   = attribute.Key("parley.commit.answers") // commands that the commit has answered
	attrParts     = attribute.Key("parley.parts")
	attrSub       = attribute.Key("parley.delegation.session")
	attrCached    = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	attrResumed   = attribute.Key("parley.resumed") // true: this process has not seen the start
	attrText      = attribute.Key("parley.text")    // only with tracing.content

	attrOperation    = attribute.Key("gen_ai.operation.name")
	attrProvider     = attribute.Key("gen_ai.provider.name")
	attrRequestModel = attribute.Key("gen_ai.request.model")
	attrModel        = attribute.Key("gen_ai.response.model")
	attrInput        = attribute.Key("gen_ai.usage.input_tokens")
	attrOutput       = attribute.Key("gen_ai.usage.output_tokens")
	attrFinish       = attribute.Key("gen_ai.response.finish_reasons")
	attrAgent        = attribute.Key("gen_ai.agent.name")
	attrTool         = attribute.Key("gen_ai.tool.name")
	attrCall         = attribute.Key("gen_ai.tool.call.id")
	attrArgs         = attribute.Key("gen_ai.tool.call.arguments") // only with tracing.content
	attrResult       = attribute.Key("gen_ai.tool.call.result")    // only with tracing.content
	attrError        = attribute.Key("error.type")
)

// excerpt bounds each text that tracing.content lets into an attribute, in bytes.
const excerpt = 1024
