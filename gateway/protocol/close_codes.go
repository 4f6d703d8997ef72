package protocol

// The close codes of protocol v1.
const (
	CloseNormal          = 1000
	CloseGoingAway       = 1001
	CloseFraming         = 1002
	CloseBinary          = 1003
	CloseUTF8            = 1007
	CloseTooBig          = 1009
	CloseRestart         = 1012
	CloseInternal        = 4000
	CloseHelloTimeout    = 4002
	CloseHeartbeat       = 4003
	CloseSlow            = 4004
	CloseOverloaded      = 4006
	CloseTokenExpired    = 4007
	CloseRateLimited     = 4008
	CloseProtocol        = 4500
	CloseUnauthenticated = 4501
	CloseForbidden       = 4502
	CloseVersion         = 4503
	CloseLimit           = 4504
)

// CloseLabel keeps the label set of the metric closed.
func CloseLabel(code int) string {
	switch code {
	case CloseNormal:
		return "1000"
	case CloseGoingAway:
		return "1001"
	case CloseFraming:
		return "1002"
	case CloseBinary:
		return "1003"
	case 1006:
		return "1006"
	case CloseUTF8:
		return "1007"
	case CloseTooBig:
		return "1009"
	case CloseRestart:
		return "1012"
	case CloseInternal:
		return "4000"
	case CloseHelloTimeout:
		return "4002"
	case CloseHeartbeat:
		return "4003"
	case CloseSlow:
		return "4004"
	case CloseOverloaded:
		return "4006"
	case CloseTokenExpired:
		return "4007"
	case CloseRateLimited:
		return "4008"
	case CloseProtocol:
		return "4500"
	case CloseUnauthenticated:
		return "4501"
	case CloseForbidden:
		return "4502"
	case CloseVersion:
		return "4503"
	case CloseLimit:
		return "4504"
	default:
		return "other"
	}
}
